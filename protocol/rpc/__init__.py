"""Calls, streams and notices over one connection, with an event loop and without."""
