"""What all parts of the schedd share: the queue, the writer that makes it durable, settings, and who may do what."""
