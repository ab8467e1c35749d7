"""The transform language, which changes one ad by rules."""
