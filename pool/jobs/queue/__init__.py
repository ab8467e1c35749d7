"""The durable queue of a schedd, and its history."""
