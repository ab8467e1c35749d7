"""What a startd finds out about its machine by trying, at its start and later: who looks tells it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Findings:
    """`known`: attributes of all slots, as they are now. `learn` adds some, or takes those away
    that are None: the policy sees it, and the pool."""

    known: Mapping[str, Any]
    learn: Callable[[Mapping[str, Any]], None]
