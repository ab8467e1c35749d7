"""Tools for graphs of jobs."""
