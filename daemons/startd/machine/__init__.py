"""What a startd finds out about its machine, and the knobs that say what it makes of it."""
