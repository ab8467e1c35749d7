"""In which form a command line wants ads: whole, in rows of chosen attributes, or in a table.

Rules, as in condor_q, condor_status, condor_history and condor_who of HTCondor: whole ads (-long, -json, -xml) win over
rows (-format, -autoformat), rows over the table of -print-format, and that over the tool's own view. `-print-format !`
stands for the own view. -aaf adds columns to a table, and says nothing of the other forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from minipool.cli.output.ad_output import attribute_list, wanted_form, write_all
from minipool.cli.output.autoformat import AutoFormat

if TYPE_CHECKING:
    from minipool.cli.entry.options import Parsed
    from minipool.cli.output.mask import PrintAs
    from minipool.cli.output.print_format import PrintFormat
    from pool.classad import ClassAd


class AdForm:
    """What the options of one command line come to: `whole` ads, or `rows`, or neither, which is a table."""

    def __init__(self, parsed: Parsed, *, job_id: bool = True) -> None:
        self.parsed = parsed
        self.whole = wanted_form(parsed)
        self.rows = AutoFormat(parsed, job_id=job_id)

    @property
    def is_table(self) -> bool:
        """Whether neither whole ads nor rows are asked for."""
        return not (self.whole or self.rows)

    def print_format(self, functions: Mapping[str, PrintAs], *, truncate: bool = True) -> PrintFormat | None:
        """The table of -print-format; None without one."""
        path = self.parsed.value("print-format")
        if path is None or path == "!":
            return None
        from minipool.cli.output.print_format import from_file

        return from_file(path, functions, truncate=truncate)

    def table(self, view: str, functions: Mapping[str, PrintAs], *, truncate: bool = True) -> PrintFormat:
        """The table of -print-format, or the view, with the columns of -aaf."""
        from minipool.cli.output.print_format import parse

        # A file of the user's cuts what is too wide, a view of ours lets it grow.
        table = self.print_format(functions) or parse(view.split("\n"), functions, truncate=truncate)
        self.append(table, functions)
        return table

    def append(self, table: PrintFormat, functions: Mapping[str, PrintAs]) -> None:
        """Add the columns of -aaf."""
        from minipool.cli.output.print_format import append

        append(table.mask, self.parsed.values("aaf"), functions, self.parsed.qualifier("aaf") or "")

    def projection(self, table: Iterable[str], always: Iterable[str] = ()) -> list[str]:
        """The attributes to fetch: of `table` unless another form is asked for, and what rows `always` need."""
        if self.whole:
            return attribute_list(self.parsed)
        return sorted({*self.rows.names(), *always} if self.rows else {*table})

    def text(self, ads: Iterable[ClassAd], *, empty_json: bool = False, xml_gap: str = "") -> Iterable[str]:
        """The ads whole or in rows, piece by piece; nothing where a table is asked for. See `write_all`."""
        if self.whole:
            only = attribute_list(self.parsed)
            yield from write_all(ads, self.whole, only, empty_json=empty_json, xml_gap=xml_gap)
        elif self.rows:
            yield from self.rows.text(ads)
