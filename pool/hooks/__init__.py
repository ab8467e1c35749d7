"""Programs of the site that take part in a job's life: which there are for a keyword, and what their answers mean."""
