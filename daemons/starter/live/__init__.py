"""Looking into a running job: the ends of its files, and shells."""
