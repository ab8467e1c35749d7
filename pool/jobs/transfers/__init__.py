"""Transfers of an access point: their queue, their load, and what ads and logs tell of them."""
