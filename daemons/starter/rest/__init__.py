"""While a job only runs: its starter rests, a keeper has the job, and whatever happens wakes another starter."""
