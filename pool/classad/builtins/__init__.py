"""The functions that expressions may call, by subject. Importing a module enters its functions into the table."""

from pool.classad.builtins import (
    clock,
    control,
    conversions,
    jobs,
    lists,
    maths,
    predicates,
    regexes,
    stringlists,
    strings,
)

__all__ = [
    "clock",
    "control",
    "conversions",
    "jobs",
    "lists",
    "maths",
    "predicates",
    "regexes",
    "stringlists",
    "strings",
]
