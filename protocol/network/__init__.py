"""Connections between processes: sockets, the host's shared port, and who is let in."""
