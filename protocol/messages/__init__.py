"""What processes say to each other: one module per receiver, plus what every daemon answers."""
