"""How a peer proves who it is: one module per method, and `negotiate`, which picks the method."""
