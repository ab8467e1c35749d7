"""The file agent: every file of one user, at the access point, opened as that user."""
