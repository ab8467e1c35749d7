"""The master: starts, watches and stops the daemons of its host, and owns its one TCP port."""
