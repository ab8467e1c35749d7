"""One job on one machine: what to start and how, which files move, what its end means. Decisions only."""
