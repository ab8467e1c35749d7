"""condor_status's tables of many slots, from columns of attributes: the same text as from the ads, sooner.

Only what is shown and counted is fetched. `columns_do` says which calls can be answered so; the others, and pools in
which a machine shows an expression there, go by ads (`status.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from minipool.cli.output.columnar import AdColumns, RowOf, Unsuited, are_told_apart, display, render
from minipool.cli.pool_tools.status_totals import KINDS, TotalsKind, lines

if TYPE_CHECKING:
    from minipool.cli.pool_tools.status import StatusQuery
    from pool.classad import ClassAd
    from protocol.wire.ad_table import AdTable

_VIEWS: Final = frozenset(("normal", "avail", "claimed", "state", "server", "vm", "java", "absent", "any"))
_HUGE: Final = 2**32
_ORDERED_BY: Final = ("Name", "Machine")


def columns_do(asked: StatusQuery) -> bool:
    """Whether this call's table can be made of columns."""
    parsed = asked.parsed
    if not asked.output.is_table or asked.format is not None or asked.mode.kind not in _VIEWS or asked.sort_by:
        return False
    if any(parsed.has(key) for key in ("ads", "direct", "merge", "diagnose", "target")):
        return False
    # What a user's own expression reads is not always known beforehand.
    return not parsed.has("aaf") or all(part.source.is_name for part in asked.table.mask.parts)


def attributes(asked: StatusQuery) -> list[str]:
    """The attributes that the table and its totals need."""
    shown = [] if asked.only_totals else asked.table.names()
    kind = KINDS.get(asked.view.totals)
    return sorted({*shown, *_ORDERED_BY, *(kind.needs if kind is not None else ())})


def table(asked: StatusQuery, batches: Iterable[AdTable | list[ClassAd]]) -> Iterator[str]:
    """What is printed, piece by piece; Unsuited before the first piece where only the ads themselves will do."""
    columns = AdColumns(attributes(asked))
    for batch in batches:
        columns.add(batch)
    if not columns.rows:
        return
    names = columns.texts("Name", [""] * columns.rows)
    order = asked.order(names, columns.texts("Machine", names))
    if order is not None:
        columns.arrange(order)
    if not asked.only_totals:
        mask = asked.table.mask
        cells = render(mask, columns)
        heading = asked.heading()
        rows = display(mask, cells)
        yield heading
        yield from rows
    kind = KINDS.get(asked.view.totals)
    if kind is not None:
        yield "\n" + lines(kind, _counted(kind, columns), key_width=asked.key_width)


def _counted(kind: TotalsKind, columns: AdColumns) -> Iterator[tuple[str | None, ClassAd, int]]:
    """Under which key ads are counted, and how many are alike in all that counts."""
    row = RowOf(kind.needs)
    inputs = row.columns(columns)
    times: dict[tuple[object, ...], int] = {}
    if not all(map(_adds_up, inputs)):
        for values in zip(*inputs, strict=True):
            ad = row.ad(values)
            yield kind.key(ad), ad, 1
        return
    for values in zip(*inputs, strict=True):
        times[values] = times.get(values, 0) + 1
    for values, count in times.items():
        ad = row.ad(values)
        yield kind.key(ad), ad, count


def _adds_up(column: list[Any]) -> bool:
    """Whether sums of these values do not depend on their order: those of reals do, and those of huge numbers."""
    return are_told_apart(column) and all(abs(value) < _HUGE for value in {*column} if type(value) is int)


__all__ = ["Unsuited", "attributes", "columns_do", "table"]
