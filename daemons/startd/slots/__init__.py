"""The slots as they are now: their moves, their effects, their ads."""
