"""The table at the end of events 004 and 005: what the job used, asked for and was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd
from pool.classad.values.attrs import MISSING
from pool.classad.values.value import int_of

_LABELS: Final = {
    "memory": "Memory (MB)",
    "disk": "Disk (KB)",
    "gpusmemory": "GpusMemory (MB)",
    "timeexecute": "TimeExecute (s)",
    "timeslotbusy": "TimeSlotBusy (s)",
}
_LABEL_WIDTH: Final = 20
_COLUMN_WIDTH: Final = 8
_ALLOCATED_WIDTH: Final = 9

Number = int | float | str


@dataclass
class _Row:
    usage: str = ""
    request: str = ""
    allocated: str = ""
    assigned: str = ""


def usage_ad(job: ClassAd) -> dict[str, Number]:
    """What the table shows of a job ad: `Cpus`, `RequestCpus`, `CpusUsage` and so on for each provisioned resource."""
    table: dict[str, Number] = {}
    attrs = job.attrs
    for shown, attribute, key in _shown_of(job.eval_str("ProvisionedResources") or "Cpus, Disk, Memory"):
        value = attrs.lookup(key)
        if value is MISSING:
            continue
        if type(value) not in (int, float):
            value = job.eval(attribute)
        if shown.startswith("Assigned"):
            if isinstance(value, str):
                table[shown] = f'"{value}"'
        elif isinstance(value, int | float):
            table[shown] = value
    for shown, attribute in (
        ("TimeExecuteUsage", "ActivationExecutionDuration"),
        ("TimeSlotBusyUsage", "ActivationDuration"),
    ):
        seconds = job.eval_int(attribute)
        if seconds is not None:
            table[shown] = seconds
    return table


@lru_cache(64)
def _shown_of(resources: str) -> list[tuple[str, str, str]]:
    """For each row of the table its name, the attribute that it shows, and that in lower case."""
    shown = []
    for name in split_list(resources):
        shown += [
            (name, f"{name}Provisioned"),
            (f"Request{name}", f"Request{name}"),
            (f"{name}Usage", f"{name}AverageUsage"),
            (f"{name}Usage", f"{name}Usage"),
            (f"{name}MemoryUsage", f"{name}MemoryUsage"),
            (f"Assigned{name}", f"Assigned{name}"),
        ]
    return [(row, attribute, attribute.lower()) for row, attribute in shown]


def usage_lines(table: Mapping[str, Number]) -> Iterator[str]:
    """The table as lines; none when there is nothing to show."""
    yield from _laid_out(tuple([(name, _shown(value)) for name, value in table.items()]))


@lru_cache(256)
def _laid_out(table: tuple[tuple[str, str], ...]) -> list[str]:
    """The lines; short jobs, of which there are many at a time, often show the same."""
    return list(_lines(_rows(table)))


def _lines(rows: Mapping[str, _Row]) -> Iterator[str]:
    if not rows:
        return
    columns = [[row.usage, row.request, row.allocated, row.assigned] for row in rows.values()]
    usage, request, allocated = (
        max(least, *(len(column[at]) for column in columns))
        for at, least in ((0, _COLUMN_WIDTH), (1, _COLUMN_WIDTH), (2, _ALLOCATED_WIDTH))
    )
    titles = f"{'Usage':>{usage}} {'Request':>{request}} {'Allocated':>{allocated}}"
    yield f"\tPartitionable Resources : {titles} {'Assigned' if any(column[3] for column in columns) else ''}"
    for name, row in sorted(rows.items(), key=lambda item: item[0].lower()):
        label = _LABELS.get(name.lower(), name)
        yield (
            f"\t   {label:<{_LABEL_WIDTH}} : {row.usage:>{usage}} {row.request:>{request}}"
            f" {row.allocated:>{allocated}} {row.assigned}"
        )


def _rows(table: Iterable[tuple[str, str]]) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    for name, text in table:
        if name.startswith("Request"):
            rows.setdefault(name[7:], _Row()).request = text
        elif name.startswith("Assigned"):
            rows.setdefault(name[8:], _Row()).assigned = text
        elif name.endswith("Usage"):
            rows.setdefault(name[:-5], _Row()).usage = text
        else:
            rows.setdefault(name, _Row()).allocated = text
    _align(rows)
    return rows


def _align(rows: Mapping[str, _Row]) -> None:
    """Where a column has fractions, integers get blanks in their place."""
    for column in ("usage", "request", "allocated"):
        texts = [getattr(row, column) for row in rows.values()]
        if any("." in text for text in texts):
            for row in rows.values():
                text = getattr(row, column)
                if text.isdigit():
                    setattr(row, column, text + "   ")


def _shown(value: Number) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.2f}" if value % 1 > 0 else str(int_of(value))
    return str(value)
