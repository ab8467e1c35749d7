"""Tools about jobs in a queue and its history."""
