"""Ads as text: reading and writing each form."""
