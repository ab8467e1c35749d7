"""Programs that come with the pool and that its daemons run."""
