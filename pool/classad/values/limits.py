"""What an ad may cost: beyond these limits a text is refused, and an evaluation gives the error value."""

from __future__ import annotations

import sys
from typing import Final

MAX_NESTING: Final = 150  # brackets, unary operators and the like inside one another, in one text
MAX_DEPTH: Final = 400  # attributes and nested evaluations in progress at one time
MAX_STEPS: Final = 100_000  # attribute evaluations, list members and the like in one evaluation; see `budget`
MAX_CPU: Final = 0.05  # seconds of processor time of one evaluation
DEAR_CPU: Final = 0.01  # seconds of one evaluation from which who asks for many of them counts it
MAX_EXPRESSION: Final = 65_536  # characters of one expression
MAX_TEXT: Final = 10_000_000  # characters of one new-form ad, or line of a long-form one
MAX_STRING: Final = 10_000_000  # bytes of a string that a function builds
LONG_STRING: Final = 4_096  # characters from which comparing two strings is counted
MAX_INTERNED_NAME: Final = 128  # characters of a name that tables of spellings keep

# The deepest legal evaluation needs more Python frames than the default limit; frames of Python 3.11+ live on the heap.
if sys.getrecursionlimit() < 12_000:
    sys.setrecursionlimit(12_000)
