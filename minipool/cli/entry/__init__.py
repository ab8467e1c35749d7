"""How a tool begins and ends: its name, options, context and exit status."""
