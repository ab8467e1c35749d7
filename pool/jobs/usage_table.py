"""The table at the end of events 004 and 005: what the job used, asked for and was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pool.classad import ClassAd

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
    names = job.eval_str("ProvisionedResources") or "Cpus, Disk, Memory"
    for name in names.replace(",", " ").split():
        for shown, attribute in (
            (name, f"{name}Provisioned"),
            (f"Request{name}", f"Request{name}"),
            (f"{name}Usage", f"{name}AverageUsage"),
            (f"{name}Usage", f"{name}Usage"),
            (f"{name}MemoryUsage", f"{name}MemoryUsage"),
        ):
            value = job.eval(attribute)
            if isinstance(value, int | float):
                table[shown] = value
        assigned = job.eval(f"Assigned{name}")
        if isinstance(assigned, str):
            table[f"Assigned{name}"] = f'"{assigned}"'
    for shown, attribute in (
        ("TimeExecuteUsage", "ActivationExecutionDuration"),
        ("TimeSlotBusyUsage", "ActivationDuration"),
    ):
        seconds = job.eval_int(attribute)
        if seconds is not None:
            table[shown] = seconds
    return table


def usage_lines(table: Mapping[str, Number]) -> Iterator[str]:
    """The table as lines; none when there is nothing to show."""
    rows = _rows(table)
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


def _rows(table: Mapping[str, Number]) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    for name, value in table.items():
        text = _shown(value)
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
        return f"{value:.2f}" if value % 1 > 0 else str(int(value))
    return str(value)
