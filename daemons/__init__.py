"""The processes of a pool. Each daemon is a small main that wires pool and protocol together."""
