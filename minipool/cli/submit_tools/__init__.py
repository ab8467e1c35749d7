"""Tools that submit jobs, and that reach into those that run."""
