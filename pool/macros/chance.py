"""What `$RANDOM_CHOICE` and `$RANDOM_INTEGER` draw from where nothing else is handed in.

Not `random.Random`, whose module takes longer to import than some tools to start.
"""

from __future__ import annotations

import os
from typing import Final


class SystemChance:
    """The kernel's numbers."""

    def randrange(self, stop: int, /) -> int:
        """A whole number from 0 to below `stop`."""
        return int.from_bytes(os.urandom(16)) % stop


SYSTEM_CHANCE: Final = SystemChance()
