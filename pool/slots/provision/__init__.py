"""How a machine is divided among its slots: what it has, slot types, and the carving of dynamic slots."""
