"""The access point: it keeps the job queue, claims slots for it and watches over each running job."""
