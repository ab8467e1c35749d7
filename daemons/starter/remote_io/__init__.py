"""A job's files where they are: a file system for which the kernel asks this process, and it the file agent."""
