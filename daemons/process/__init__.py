"""Processes that fork others: zygotes, and the owner's side of them."""
