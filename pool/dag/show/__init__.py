"""What a graph looks like, and what became of its nodes, for people: `pool dag show`."""
