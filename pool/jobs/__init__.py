"""One job, from submit to history: its policy, its executions, and what may be done to it."""
