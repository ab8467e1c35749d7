"""The executions of jobs: a shadow for each in a slot, and jobs that run at the access point."""
