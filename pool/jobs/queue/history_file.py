"""Files of ads that only grow: finished jobs, executions, transfers.

Each ad is in long form, with a line after it that begins with `***` and says what the ad is and whose. A file that has
become too long is renamed after the moment (`epoch_history.20261122T093000`), and the oldest of those go.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pool.classad import ClassAd, Expr, parse_long
from pool.classad.eval.ad import text_of

EPOCH: Final = "EPOCH"
TRANSFERS: Final = ("INPUT", "OUTPUT", "CHECKPOINT")
OF_TRANSFERS: Final = ("ClusterId", "ProcId", "Owner", "RemoteHost")
"""What of a job is in the record of a transfer in any case."""
LINES_MAX: Final = 2000
KEPT_TEXT_MAX: Final = 200
_KEPT: Final = frozenset({str, bool, Expr})


class HistoryRecord(NamedTuple):
    """One ad of a file, not yet parsed; `kind` is the banner's first word, or JOB where it has none."""

    kind: str
    banner: str
    text: str

    def ad(self) -> ClassAd:
        """The ad; lines that are not understood are an error."""
        return parse_long(self.text)


def job_banner(ad: ClassAd, *, offset: int = 0) -> str:
    """The line after a finished job."""
    return (
        f"*** Offset = {offset} ClusterId = {ad.eval_int('ClusterId', -1)} ProcId = {ad.eval_int('ProcId', -1)} "
        f'Owner = "{ad.eval_str("Owner", "?")}" CompletionDate = {ad.eval_int("CompletionDate", -1)}\n'
    )


def run_banner(kind: str, ad: ClassAd, now: float) -> str:
    """The line after what happened in one execution of a job."""
    return (
        f"*** {kind} ClusterId={ad.eval_int('ClusterId', -1)} ProcId={ad.eval_int('ProcId', -1)} "
        f'RunInstanceId={ad.eval_int("RunInstanceId", 0)} Owner="{ad.eval_str("Owner", "?")}" CurrentTime={int(now)}\n'
    )


def daemon_banner(subsystem: str, now: float) -> str:
    """The line after a daemon's own ad."""
    return f"*** {subsystem} CurrentTime={int(now)}\n"


def run_attributes(ad: ClassAd, kind: str, now: float) -> dict[str, object]:
    """What the ad of an execution has beyond the job's own attributes."""
    return {
        "RunInstanceId": max(0, ad.eval_int("NumShadowStarts", 1) - 1),
        "EpochAdType": kind,
        "EpochWriteDate": int(now),
    }


def own_lines(ad: ClassAd) -> str:
    """The ad's own attributes as lines, without its parent's."""
    return "".join([_line(name, value) for name, value in ad.own()])


def _line(name: str, value: Any) -> str:
    """Jobs of one cluster say mostly the same, and records come in thousands: the texts of such values are kept."""
    kind = type(value)
    is_kept = kind in _KEPT and len(value if kind is str else str(value)) <= KEPT_TEXT_MAX
    return _kept_line(name, value) if is_kept else _new_line(name, value)


def _new_line(name: str, value: Any) -> str:
    return f"{name} = {text_of(value, old=True)}\n"


_kept_line: Final = lru_cache(LINES_MAX, typed=True)(_new_line)


def records(text: str, *, backwards: bool = False) -> Iterator[HistoryRecord]:
    """The records of a file's text; what no banner closes is a job too."""
    return _backwards(text) if backwards else _forwards(text)


def _forwards(text: str) -> Iterator[HistoryRecord]:
    start = 0
    while start < len(text):
        at = 0 if text.startswith("***", start) else text.find("\n***", start) + 1
        if at == 0 and not text.startswith("***", start):
            if text[start:].strip():
                yield HistoryRecord("JOB", "", text[start:])
            return
        at = start if text.startswith("***", start) else at
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if text[start:at].strip():
            yield _record(text[at:end], text[start:at])
        start = end + 1


def _backwards(text: str) -> Iterator[HistoryRecord]:
    end = len(text)
    while end > 0:
        at = text.rfind("\n***", 0, end) + 1
        if at == 0 and not text.startswith("***"):
            if text[:end].strip():
                yield HistoryRecord("JOB", "", text[:end])
            return
        closing = text.find("\n", at)
        closing = end if closing < 0 else closing
        if text[closing:end].strip():  # an ad that no banner closes
            yield HistoryRecord("JOB", "", text[closing:end])
        # The banner closes the ad above it, so the ad begins where the banner before that ends.
        before = text.rfind("\n***", 0, at - 1 if at else 0)
        start = 0
        if before >= 0:
            start = text.find("\n", before + 1) + 1
        elif text.startswith("***") and at:
            start = text.find("\n") + 1
        if text[start:at].strip():
            yield _record(text[at:closing], text[start:at])
        end = start


def _record(banner: str, text: str) -> HistoryRecord:
    words = banner.split(None, 2)
    first = words[1] if len(words) > 1 else ""
    return HistoryRecord(first.upper() if first and "=" not in first and first != "Offset" else "JOB", banner, text)


def rotated_name(path: str, now: float) -> str:
    """What a file that is too long is renamed to."""
    return f"{path}.{time.strftime('%Y%m%dT%H%M%S', time.localtime(now))}"


def rotations(path: str, names: Iterable[str]) -> list[str]:
    """Which of a directory's names are earlier parts of the file, oldest first."""
    base = path.rpartition("/")[2] + "."
    return sorted(name for name in names if name.startswith(base) and _is_moment(name[len(base) :]))


def _is_moment(text: str) -> bool:
    return len(text) == 15 and text[8] == "T" and (text[:8] + text[9:]).isdigit()


def surplus(path: str, names: Iterable[str], keep: int) -> Sequence[str]:
    """Which earlier parts are to go, so that no more than `keep` remain."""
    found = rotations(path, names)
    return found[: max(0, len(found) - keep)]
