"""The kernel's language for file systems that a process serves: its requests as bytes, and the answers to them."""
