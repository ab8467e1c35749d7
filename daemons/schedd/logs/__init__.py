"""What a schedd writes down for others to read: the event log of all jobs, and records of executions."""
