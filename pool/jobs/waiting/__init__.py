"""What waits for slots: autoclusters, their order, and how fast jobs start."""
