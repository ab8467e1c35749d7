"""The jobs' end of chirp."""
