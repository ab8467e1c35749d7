"""Ads between daemons: the table that a collector keeps, how large ads may be, which are offline, their statistics."""
