"""What people import and type: the Python API and the command-line tools."""
