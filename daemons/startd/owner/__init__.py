"""What a machine's owner does: drain it, give it work of his own, or let it work for others in the meantime."""
