"""Regular expressions that are compiled when they are first used.

Compiling one costs as much as importing a module, and a tool uses few of those whose modules it imports: two dozen of
them were a seventh of `condor_q`'s start-up. The `re` module itself takes half as long as starting the interpreter, so
modules that tools import ask for patterns here, and have its flags from here.
"""

from __future__ import annotations

from pool.hints import Any, Final, Pattern

IGNORECASE: Final = 2
MULTILINE: Final = 8
DOTALL: Final = 16
ASCII: Final = 256
"""The flags of `re` by the same names."""

_known: Final[list[_Late]] = []


class _Late:
    """Becomes the pattern when a method of it is first asked for, and from then on costs what the pattern does."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags
        _known.append(self)

    def __getattr__(self, name: str) -> Any:
        import re

        pattern = re.compile(self._text, self._flags)
        for method in ("match", "fullmatch", "search", "sub", "split", "findall", "finditer", "pattern"):
            setattr(self, method, getattr(pattern, method))
        return getattr(pattern, name)


def late_pattern(text: str, flags: int = 0) -> Pattern[str]:
    """As `re.compile`, which is called at the first use."""
    return _Late(text, flags)  # type: ignore[return-value]  # it has the methods of one


def compile_all() -> None:
    """Compile all that modules which are imported have, for a process whose children will use them."""
    for pattern in _known:
        pattern.__getattr__("pattern")
