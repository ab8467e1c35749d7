"""The totals under condor_status's tables: slots by platform and state, jobs by schedd or submitter.

Each view has a kind of totals, a row of KINDS: how an ad is grouped, what it adds, how sums are printed. An ad that
cannot be counted is malformed, and is mentioned below. Source: HTCondor's manual page condor_status.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from minipool.cli.output.print_as import platform
from pool.classad import ClassAd

STATES: Final = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Backfill")
Counts = dict[str, float]


class TotalsKind(NamedTuple):
    """How one view is counted: the group of an ad, what it adds, and how the sums print. `needs`: what that reads."""

    key: Callable[[ClassAd], str | None]
    add: Callable[[Counts, ClassAd], bool]
    heading: str
    line: Callable[[Counts], str]
    groups_shown: bool = True
    needs: tuple[str, ...] = ()


def totals(kind: str, ads: Sequence[ClassAd], *, key_width: int = 14) -> str:
    """The block of totals; empty for views that have none."""
    how = KINDS.get(kind)
    return "" if how is None else lines(how, ((how.key(ad), ad, 1) for ad in ads), key_width=key_width)


def lines(how: TotalsKind, keyed: Iterable[tuple[str | None, ClassAd, int]], *, key_width: int) -> str:
    """The block for ads that are counted under these keys, each so many times; ads without a key are said to be
    malformed.
    """
    groups: dict[str, Counts] = {}
    whole: Counts = {}
    malformed = 0
    for key, ad, times in keyed:
        if key is None:
            malformed += times
            continue
        adds: Counts = {}
        good = how.add(adds, ad)
        for sums in (groups.setdefault(key, {}), whole):
            for name, amount in adds.items():
                _count(sums, name, amount * times)
        malformed += 0 if good else times
    width = max(key_width, *(len(key) for key in groups), 5) if groups else key_width
    out = [" " * width + how.heading, ""]
    for key in sorted(groups):
        out.append(key.rjust(width)[:width] + (how.line(groups[key]) if how.groups_shown else ""))
    if groups and how.groups_shown:
        out.append("")
    out.append("Total".rjust(width) + how.line(whole))
    if malformed:
        omitted = f"(Omitted {malformed} malformed ads in computed attribute totals)"
        out += ["", f"{' ' * width}{omitted}", ""]
    return "\n".join(out) + "\n"


def _slot_key(ad: ClassAd) -> str | None:
    arch, system = ad.eval_str("Arch"), ad.eval_str("OpSys")
    return f"{arch}/{system}" if arch and system else None


def _count(sums: Counts, name: str, amount: float = 1) -> None:
    sums[name] = sums.get(name, 0) + amount


def _add_state(sums: Counts, ad: ClassAd) -> bool:
    state = ad.eval_str("State")
    if state not in STATES:
        return False
    if ad.eval_bool("BackfillSlot") and state == "Unclaimed":
        # Backfill slots that idle are no capacity of the pool: they are counted apart, and not in the total.
        _count(sums, "BkIdle")
        return True
    _count(sums, "Backfill" if ad.eval_bool("BackfillSlot") and state == "Claimed" else state)
    _count(sums, "Total")
    return True


def _int(sums: Counts, name: str) -> int:
    return int(sums.get(name, 0))


def _normal_line(sums: Counts) -> str:
    widths = (6, 5, 7, 9, 7, 10, 6, 8, 6)
    return " ".join(
        f"{_int(sums, name):{width}d}" for name, width in zip(("Total", *STATES, "BkIdle"), widths, strict=True)
    )


def _state_line(sums: Counts) -> str:
    names = ("None", "Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drained", "Backfill", "BkIdle")
    widths = (6, 5, 9, 7, 10, 7, 6, 8, 6)
    return " ".join(f"{_int(sums, name):{width}d}" for name, width in zip(names, widths, strict=True))


def _adder(*names: str) -> Callable[[Counts, ClassAd], bool]:
    def add(sums: Counts, ad: ClassAd) -> bool:
        _count(sums, "Count")
        good = True
        for name in names:
            amount = ad.eval_float(name, math.nan)
            good = good and math.isfinite(amount)
            _count(sums, name, amount if math.isfinite(amount) else 0)
        return good

    return add


def _add_server(sums: Counts, ad: ClassAd) -> bool:
    state = ad.eval_str("State")
    _count(sums, "Avail", state in ("Claimed", "Unclaimed"))
    return _adder("Memory", "Disk", "Mips", "KFlops")(sums, ad) and state is not None


def _server_line(sums: Counts) -> str:
    amounts = " ".join(f"{_int(sums, name):11d}" for name in ("Memory", "Disk", "Mips", "KFlops"))
    return f"{_int(sums, 'Count'):9d} {_int(sums, 'Avail'):5d} {amounts}"


def _run_line(sums: Counts) -> str:
    count = _int(sums, "Count")
    load = sums.get("LoadAvg", 0) / count if count else 0
    return f"{count:9d}  {_int(sums, 'Mips'):11d}  {_int(sums, 'KFlops'):11d}   {load:.3f}"


def _jobs_line(names: Sequence[str], widths: Sequence[int]) -> Callable[[Counts], str]:
    def line(sums: Counts) -> str:
        return " ".join(f"{_int(sums, name):{width}d}" for name, width in zip(names, widths, strict=True))

    return line


_STARTD = (
    "TotalCpus", "TotalInUseCpus", "TotalBackfillInUseCpus",
    "TotalGPUs", "TotalInUseGPUs", "TotalBackfillInUseGPUs",
)  # fmt: skip


def _add_startd(sums: Counts, ad: ClassAd) -> bool:
    _count(sums, "Machines")
    _count(sums, "Slots", ad.eval_int("TotalSlots", 0) or ad.eval_int("NumDynamicSlots", 0))
    for name in _STARTD:
        _count(sums, name, ad.eval_int(name, 0))
    memory = ad.eval_float("TotalMemory", 0.0)
    if memory:
        _count(sums, "Memory", ad.eval_float("TotalInUseMemory", 0.0) / memory)
        _count(sums, "BkMemory", ad.eval_float("TotalBackfillInUseMemory", 0.0) / memory)
    return bool(memory)


def _startd_line(sums: Counts) -> str:
    counts = " ".join(f"{_int(sums, name):8d}" for name in ("Machines", "Slots", *_STARTD))
    machines = _int(sums, "Machines") or 1
    used, backfill = (100 * sums.get(name, 0) / machines for name in ("Memory", "BkMemory"))
    return f"{counts} {used:7.2f}% {backfill:7.2f}%"


def slots_of(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The slots that stand behind the lines of machines: dynamic ones as their partitionable slot tells of them."""
    out = []
    for ad in ads:
        if ad.eval_bool("PartitionableSlot"):
            states = ad.eval("ChildState")
            out += [ClassAd({"State": state}, parent=ad) for state in (states if isinstance(states, list) else [])]
            if ad.eval_float("Cpus", 0.0) >= 0.1:
                out.append(ad)
        elif not ad.eval_bool("DynamicSlot"):
            out.append(ad)
    return out


def _health_key(ad: ClassAd) -> str | None:
    return _slot_key(ad) if ad.eval_str("MyType") == "Machine" else platform(ad)


def _add_health(sums: Counts, ad: ClassAd) -> bool:
    healthy = ad.eval_bool("Healthy")
    broken = "BrokenReasons" in ad or "SlotBrokenReason" in ad
    _count(sums, "Broken" if broken else "Unknown" if healthy is None else "Healthy" if healthy else "Unhealthy")
    return True


def _health_line(sums: Counts) -> str:
    return " ".join(f"{_int(sums, name):9d}" for name in ("Healthy", "Unhealthy", "Broken", "Unknown"))


_PLATFORM: Final = ("Arch", "OpSys")
_STATE: Final = ("State", "BackfillSlot")
_SIZES: Final = ("Memory", "Disk", "Mips", "KFlops")
_NORMAL_HEADING = " Total Owner Claimed Unclaimed Matched Preempting  Drain Backfill BkIdle"
_SCHEDD = ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs")
_SUBMITTER = ("RunningJobs", "IdleJobs", "HeldJobs")
KINDS: Final[dict[str, TotalsKind]] = {
    "normal": TotalsKind(_slot_key, _add_state, _NORMAL_HEADING, _normal_line, needs=(*_PLATFORM, *_STATE)),
    "compact": TotalsKind(platform, _add_state, _NORMAL_HEADING, _normal_line),
    "state": TotalsKind(
        lambda ad: ad.eval_str("Activity"),
        _add_state,
        " Total Owner Unclaimed Claimed Preempting Matched  Drain Backfill BkIdle",
        _state_line,
        needs=("Activity", *_STATE),
    ),
    "server": TotalsKind(
        _slot_key, _add_server, "    Slots Avail  Memory        Disk        MIPS      KFLOPS", _server_line,
        needs=(*_PLATFORM, "State", *_SIZES),
    ),
    "run": TotalsKind(
        _slot_key, _adder("Mips", "KFlops", "LoadAvg"), " Machines         MIPS       KFLOPS   AvgLoadAvg", _run_line,
        needs=(*_PLATFORM, "Mips", "KFlops", "LoadAvg"),
    ),
    "schedd": TotalsKind(
        lambda _: " ", _adder(*_SCHEDD), "".join(name.rjust(19)[at == 0 :] for at, name in enumerate(_SCHEDD)),
        _jobs_line(_SCHEDD, (18, 18, 18)), groups_shown=False,
    ),
    "submitter": TotalsKind(
        lambda ad: ad.eval_str("Name"), _adder(*_SUBMITTER), "RunningJobs   IdleJobs   HeldJobs",
        _jobs_line(_SUBMITTER, (11, 10, 10)),
    ),
    "health": TotalsKind(_health_key, _add_health, "  Healthy Unhealthy    Broken   Unknown", _health_line),
    "ckptsrvr": TotalsKind(
        lambda _: " ", _adder("Disk"), " Servers AvailDisk  ",
        lambda sums: f" {_int(sums, 'Count'):7d} {_int(sums, 'Disk'):11d}", groups_shown=False,
    ),
    "startd": TotalsKind(
        platform, _add_startd,
        "Machines    Slots     Cpus BusyCpus   BkCpus     GPUs BusyGPUs   BkGPUs  Memory%   BkMem%", _startd_line,
    ),
}  # fmt: skip
