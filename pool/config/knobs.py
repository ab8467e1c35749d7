"""Looking a knob up in the table: by its name, or as a member of a family such as `SLOT_TYPE_<N>`."""

from __future__ import annotations

from pool.config.knob_table import ROWS, Row


class Knob:
    """One row of the table."""

    __slots__ = ("default", "kind", "name", "range", "restart", "section", "sentence")

    def __init__(self, section: str, row: Row) -> None:
        self.section = section
        self.name, self.kind, self.default, self.range, restart, self.sentence = row
        self.restart = bool(restart)

    @property
    def is_family(self) -> bool:
        return "<" in self.name

    def bounds(self) -> tuple[float | None, float | None]:
        low, _, high = self.range.partition("..")
        return (float(low) if low else None), (float(high) if high else None)

    def allows(self, number: float) -> bool:
        """Whether `number` lies in the range."""
        low, high = self.bounds()
        return (low is None or number >= low) and (high is None or number <= high)

    def range_text(self) -> str:
        low, _, high = self.range.partition("..")
        if low and high:
            return f"{low} to {high}"
        return f"at least {low}" if low else f"at most {high}" if high else "any"


# Tools look a few dozen knobs up at each start, so a row becomes a Knob, and a family is taken apart, when asked for.
_rows: dict[str, tuple[str, Row]] = {}
_families: list[tuple[str, Row]] = []
_by_letter: dict[str, list[tuple[list[str], Knob]]] = {}
_found: dict[str, Knob | None] = {}

_DAEMONS = frozenset(
    (
        *("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD", "STARTER", "SHADOW", "DEFRAG", "ROOSTER", "TOOL"),
        *("JOB_ROUTER", "DASHBOARD", "DAGMAN", "CREDD", "SHARED_PORT", "KBDD", "HAD", "REPLICATION", "SUBMIT"),
        "AGENT",
    )
)


def _load() -> None:
    for section, rows in ROWS:
        for row in rows:
            if "<" in row[0]:
                _families.append((section, row))
            else:
                _rows[row[0].lower()] = (section, row)


def _parts(name: str) -> list[str]:
    """`A<X>B` as A, X, B: fixed texts at even places, what stands between them at odd ones."""
    return name.upper().replace(">", "<").split("<")


def _fits(name: str, parts: list[str]) -> bool:
    """Whether `name` is a member of the family; each variable part has one letter at least."""
    if not name.endswith(parts[-1]) or not name.startswith(parts[0]):
        return False
    at = len(parts[0])
    for index in range(1, len(parts), 2):
        fixed = parts[index + 1]
        last = index + 2 == len(parts)
        end = len(name) - len(fixed) if last else name.find(fixed, at + 1)
        word = name[at:end] if end > at else ""
        if not word or "." in word or (parts[index] == "N" and not word.isdigit()):
            return False
        if parts[index] == "SUBSYS" and word not in _DAEMONS:
            return False
        at = end + len(fixed)
    return True


def find(name: str) -> Knob | None:
    """The knob of that name, or the family that it belongs to."""
    key = name.lower()
    if key not in _found:
        if not _rows:
            _load()
        at = _rows.get(key)
        _found[key] = Knob(*at) if at is not None else _family(name)
    return _found[key]


def _family(name: str) -> Knob | None:
    if "." in name:
        return None  # TOOL.LOG: no family's names have a point, and each look-up asks for such names first
    upper = name.upper()
    letter = upper[:1]
    if letter not in _by_letter:
        _by_letter[letter] = _beginning_with(letter)
    for parts, knob in _by_letter[letter]:
        if _fits(upper, parts):
            return knob
    return None


def _beginning_with(letter: str) -> list[tuple[list[str], Knob]]:
    """The families of names that may begin so; the one with the most fixed letters is asked first."""
    found = [(_parts(row[0]), Knob(section, row)) for section, row in _families if row[0][0].upper() in ("<", letter)]
    found.sort(key=lambda pair: -sum(map(len, pair[0][::2])))
    return found


def names() -> list[str]:
    """The names of all knobs that are no families."""
    if not _rows:
        _load()
    return [row[0] for _, row in _rows.values()]


def nearest(wrong: str) -> str | None:
    """The knob that was probably meant; of a family with numbers (`SLOT_TYPE_<N>`) the member with that number."""
    from pool.nearest import nearest_name

    numbers = [part for part in "".join(c if c.isdigit() else " " for c in wrong).split() if part]
    if len(numbers) == 1:
        families = [row[0] for _, row in _families if row[0].count("<") == 1 and "<N>" in row[0]]
        near = nearest_name(wrong.replace(numbers[0], "<N>"), families)
        if near is not None:
            return near.replace("<N>", numbers[0])
    of_daemons = (row[0].replace("<SUBSYS>", one) for _, row in _families if "<SUBSYS>" in row[0] for one in _DAEMONS)
    return nearest_name(wrong, (*names(), *sorted(of_daemons)))


def sections() -> list[tuple[str, list[Knob]]]:
    """The table in its own order, as the reference page shows it."""
    return [(section, [Knob(section, row) for row in rows]) for section, rows in ROWS]
