"""The domain: values in, values out. Opens no socket, starts no task, reads no clock that was not handed to it."""
