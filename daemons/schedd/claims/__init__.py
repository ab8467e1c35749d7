"""From waiting jobs to claimed slots."""
