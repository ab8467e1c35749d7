"""Machines that sleep: into which state, whether all slots agree, what is told of them meanwhile, and who is woken."""
