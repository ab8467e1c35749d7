"""Users' files at the access point: their agents, the spool's directories, and turns in the transfer queue."""
