"""The event log of a job, as HTCondor writes and reads it."""
