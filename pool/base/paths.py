"""Paths as texts: where one lies beside another."""

from __future__ import annotations


def is_below(path: str, directory: str) -> bool:
    """Whether `path` is the directory, or something in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
