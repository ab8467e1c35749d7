"""`-af[:jlhVrTY,tng]` and `-format`: rows of chosen attributes and expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipool.cli.entry.options import Parsed
from minipool.cli.output import mask
from minipool.cli.output.mask import Mask, PrintAs
from pool.base.errors import UserError
from pool.classad import ClassAd

_LETTERS = frozenset("jlhVrToY,tng")
_FORMATS = (("r", "%r"), ("o", "%r"), ("V", "%V"), ("Y", "%Y"), ("T", "%T"))


class AutoFormat:
    """What the formatting options of a command line ask for; falsy when there are none."""

    def __init__(self, parsed: Parsed, *, job_id: bool = True) -> None:
        self.flags = ""
        self.mask = Mask(prefix="", row_suffix="")
        self._job_id = job_id
        for given in parsed.given:
            if given.key == "autoformat":
                self._autoformat(given.qualifier, given.values)
            elif given.key == "format":
                printf_text, expression = given.values
                self.mask.add(mask.column(expression, flags=mask.NO_TRUNCATE, printf_text=printf_text))

    def __bool__(self) -> bool:
        return bool(self.mask)

    def _autoformat(self, flags: str, names: Sequence[str]) -> None:
        for flag in flags:
            if flag not in _LETTERS:
                raise UserError(f"Error: invalid -autoformat qualifier {flag!r}; known are jlhVrToY,tng")
        self.flags += flags
        into = self.mask
        into.prefix, into.suffix, into.row_prefix, into.row_suffix = " ", "", "", "\n"
        # The separators are those of condor_q(1): `,` and `n` behind each value, `t` before it, `g` a line before each
        # ad.
        for flag in flags:  # what comes later counts
            if flag in ",n":
                into.suffix = "," if flag == "," else "\n"
            elif flag == "t":
                into.prefix = "\t"
            elif flag == "g":
                into.prefix, into.row_prefix = "", "\n"
        into.has_heading = headed = into.has_heading or "h" in flags
        # With a heading the name stands there already.
        labelled = "l" in flags and not headed
        form = next((text for flag, text in _FORMATS if flag in flags), "%v")
        if "j" in flags and self._job_id:
            into.add(_job_id("ID = %v" if "l" in flags else "%v", headed))
        for name in names:
            if headed:
                wide = mask.AUTO | mask.NO_TRUNCATE
                into.add(mask.column(name, width=-len(name), flags=wide, printf_text=form))
            else:
                # The label becomes a part of a printf format, where a % of an expression would be a conversion.
                label = f"{name} = ".replace("%", "%%").replace("\\", "\\\\") if labelled else ""
                into.add(mask.column(name, flags=mask.NO_TRUNCATE, printf_text=label + form))

    def names(self) -> list[str]:
        """The attributes to fetch."""
        return self.mask.names()

    def text(self, ads: Iterable[ClassAd]) -> Iterable[str]:
        """The rows, piece by piece; with `h` only once all are known."""
        if self.mask.has_heading:
            yield self.mask.text(ads)
        else:
            yield from self.mask.lines(ads)


def _job_id(printf_text: str, headed: bool) -> mask.Column:
    def render(_: object, ad: ClassAd, column: mask.Column) -> object:
        cluster = ad.eval_int("ClusterId")
        return mask.MISSING if cluster is None else f"{cluster}.{ad.eval_int('ProcId', -1)}"

    flags = mask.NO_TRUNCATE | mask.LEFT | (mask.AUTO if headed else 0)
    how = PrintAs("s", render=render, needs=("ClusterId", "ProcId"))
    return mask.column("ClusterId", " ID", flags=flags, printf_text=printf_text, how=how)
