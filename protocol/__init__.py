"""How daemons and tools talk: frames, typed messages, sessions, authentication, RPC."""
