"""The documentation, and what makes some of its pages."""
