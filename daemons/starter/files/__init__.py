"""A job's files: the transfer of its sandbox, and streams."""
