"""The functions that expressions may call, by subject. Importing a module enters its functions into the table."""

from __future__ import annotations


def load() -> None:
    """Enter all functions."""
    from pool.classad.builtins import types  # noqa: F401
