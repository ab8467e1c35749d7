"""`-af[:jlhVrTY,tng]` and `-format`: rows of chosen attributes and expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipool.cli.columns import Col, Light, Render, Table
from minipool.cli.options import Parsed
from minipool.cli.show import Printf, Source, unescape
from pool.classad import ClassAd
from pool.errors import UserError

_LETTERS = frozenset("jlhVrToY,tng")


class AutoFormat:
    """What the formatting options of a command line ask for; falsy when there are none."""

    def __init__(self, parsed: Parsed, *, job_id: bool = True) -> None:
        self.flags = ""
        self._pieces: list[tuple[Source, Printf]] = []
        self._columns: list[tuple[Source, Printf, str]] = []
        for given in parsed.given:
            if given.key == "autoformat":
                self._autoformat(given.qualifier, given.values)
            elif given.key == "format":
                self._pieces.append((Source(given.values[1]), Printf.read(unescape(given.values[0]))))
        self.with_id = job_id and "j" in self.flags

    def __bool__(self) -> bool:
        return bool(self._columns or self._pieces)

    def _autoformat(self, flags: str, names: Sequence[str]) -> None:
        for flag in flags:
            if flag not in _LETTERS:
                raise UserError(f"Error: invalid -autoformat qualifier {flag!r}; known are jlhVrToY,tng")
        self.flags += flags
        letter = next(
            (letter for flag, letter in (("r", "r"), ("V", "V"), ("o", "V"), ("T", "T"), ("Y", "Y")) if flag in flags),
            "v",
        )
        self._columns += [(Source(name), Printf.read(f"%{letter}"), name) for name in names]

    def names(self) -> list[str]:
        """The attributes to fetch."""
        sources = [source for source, *_ in self._columns] + [source for source, _ in self._pieces]
        found = {name for source in sources for name in source.names()}
        return sorted(found | ({"ClusterId", "ProcId"} if self.with_id else set()))

    def text(self, ads: Iterable[ClassAd]) -> Iterable[str]:
        """The rows, piece by piece; with `h` only once all are known."""
        if self._columns and "h" in self.flags:
            yield from self._table(ads)
            return
        for ad in ads:
            yield "".join(form.text(source, ad) or "" for source, form in self._pieces) + self._row(ad)

    def _row(self, ad: ClassAd) -> str:
        if not self._columns:
            return ""
        flags = self.flags
        cells = [f"{_job_id(ad)}"] if self.with_id else []
        for source, form, name in self._columns:
            shown = form.text(source, ad) or ""
            cells.append(f"{name} = {shown}" if "l" in flags else shown)
        between = "\n" if "n" in flags else "\t" if "t" in flags else " "
        if "," in flags:
            between = "," + ("" if between == " " and "g" in flags else between)
        elif "g" in flags and between == " ":
            between = ""
        return ("\n" if "g" in flags else "") + between.join(cells) + "\n"

    def _table(self, ads: Iterable[ClassAd]) -> Iterable[str]:
        columns = [Col(" ID", _job_id, width=-3, auto=True)] if self.with_id else []
        for source, form, name in self._columns:
            columns.append(Col(name, _printer(source, form), width=-len(name), auto=True))
        table = Table(columns)
        yield from table.lines([table.row(ad) for ad in ads])


def _printer(source: Source, form: Printf) -> Render:
    def shown(ad: ClassAd) -> str | None:
        text = form.text(source, ad)
        if (
            text is None
            or form.letter == "r"
            or isinstance(source.value(ad), str | float)
            or text.lstrip("-").isdigit()
        ):
            return text
        return Light(text)

    return shown


def _job_id(ad: ClassAd) -> str:
    return f"{ad.eval_int('ClusterId', 0)}.{ad.eval_int('ProcId', 0)}"
