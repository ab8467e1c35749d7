"""Ads between daemons: the table that a collector keeps, which ads are absent or offline, how large ads may be, which statistics they show."""
