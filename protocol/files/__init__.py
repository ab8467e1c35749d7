"""Files over connections: lists, bytes, and where they are placed."""
