"""Watching a running program: its figures, its limits, its disk, and how it is told to leave."""
