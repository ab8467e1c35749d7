"""Which files of a job move, and where to: sandboxes, checkpoints, plug-ins, object stores, and the spool."""
