"""What all daemons share: the way they start, the world that they are handed, their ads, and what each answers."""
