"""The executions of jobs: a shadow task for each in a slot, and jobs that run at the access point."""
