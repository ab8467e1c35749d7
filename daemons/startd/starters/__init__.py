"""The starters of a host, and what is swept when they are gone."""
