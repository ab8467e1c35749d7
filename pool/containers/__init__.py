"""Jobs in containers: what a job asks for, the words an engine's program (docker, podman) is given, what it answers."""
