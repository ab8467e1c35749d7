"""Functions that a pool adds to the language."""
