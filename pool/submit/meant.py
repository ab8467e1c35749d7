"""What somebody probably meant who wrote a line that cannot be read: a slip, or the language of another system."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pool.base.nearest import nearest_name
from pool.submit import commands

_SCRIPTS: Final = (("#SBATCH", "Slurm"), ("#PBS", "PBS"), ("#BSUB", "LSF"), ("#$ -", "Grid Engine"))
_QUEUE_SLIPS: Final = frozenset(("que", "quue", "qeue", "queu", "queues", "queue:", "enqueue", "submit"))
_COMPARISON: Final = r"(?<![=!<>?])=(?![=?!>])"
_NUMBER_AND_WORD: Final = r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]+)\.?\s*\Z"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES: Final = frozenset(
    ("request_memory", "request_disk", "gpus_minimum_memory", "image_size", "retry_request_memory")
)
_DURATIONS: Final = frozenset(
    (
        *("allowed_job_duration", "allowed_execute_duration", "job_lease_duration", "deferral_window", "cron_window"),
        *("deferral_prep_time", "cron_prep_time", "next_job_start_delay", "job_max_vacate_time", "keep_claim_idle"),
    )
)
REMEMBERED: Final = 256
"""How many names' commands are kept: the nodes of a graph have the same lines over and over."""
_WORDS: Final = {"and": "&&", "or": "||", "not": "!"}


def script_of(text: str) -> str | None:
    """The system whose batch script this is (`shell` for a script without directives); None for anything else."""
    lines = text.lstrip().splitlines()
    for line in lines:
        for mark, system in _SCRIPTS:
            if line.startswith(mark):
                return system
    return "shell" if lines and lines[0].startswith("#!") else None


def instead_of_script(name: str) -> str:
    """What to submit in place of a script."""
    return f"a description that names the script, such as the lines `executable = {name or 'job.sh'}` and `queue`"


def line(text: str) -> str:
    """What stands in place of a line that is neither an assignment nor a queue statement."""
    word, _, rest = text.partition(" ")
    first = re.match(r"[\w+.]+", word)
    name = first[0] if first else ""
    if word.lower() in _QUEUE_SLIPS or nearest_name(name, ("queue",)):
        return f"`queue {rest.strip()}`".replace(" `", "`")
    known = name if name.lower() in commands.names() else nearest_name(name, commands.names())
    value = text[len(name) :].lstrip(" \t:=")
    if known is not None and value:
        return f"`{known} = {value}`"
    return "`command = value`, or a queue statement"


@lru_cache(maxsize=REMEMBERED)
def command(name: str) -> str | None:
    """The command that is a slip away from a name that is none."""
    near = nearest_name(name, commands.names())
    return None if near is None or near.lower() == name.lower() else near


def count(text: str) -> str | None:
    """What stands in place of a queue statement's arguments."""
    number = re.match(r"\d+\b", text)
    return f"`queue {number[0]}`, or a list of items such as `queue {number[0]} name in a b`" if number else None


def universe(said: str) -> str:
    """Which universe was meant."""
    known = ["vanilla", "container", "docker", "java", "local", "scheduler"]
    near = nearest_name(said, known)
    return f"'{near}'" if near else f"{', '.join(known[:-1])} or {known[-1]}"


def expression(command: str, text: str) -> str | None:
    """What stands in place of an expression that cannot be read; None when there is no guess."""
    return quantity(command, text) or _seconds_within(text) or _with_operators(text)


def quantity(command: str, text: str) -> str | None:
    """A size with a unit, or a number of seconds, in place of a number and a word."""
    found = re.match(_NUMBER_AND_WORD, text)
    if found is None:
        return None
    number, unit = found[1], found[2][0].lower()
    if command.lower() in _SIZES and unit in "kmgt":
        return f"a number and a unit, as in `{number} {unit.upper()}B`"
    if command.lower() in _DURATIONS and unit in _SECONDS:
        return f"a number of seconds, such as {int(float(number) * _SECONDS[unit])}"
    return None


def _seconds_within(text: str) -> str | None:
    found = re.search(r"\b(\d+)\s?([smhdw])\b", text)
    return f"a number of seconds, such as {int(found[1]) * _SECONDS[found[2]]} for {found[0]}" if found else None


def _with_operators(text: str) -> str | None:
    """The expression with the operators of ClassAds, outside of its strings."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    mended = [part if part.startswith('"') else _mended(part) for part in parts]
    return f"`{''.join(mended)}`" if mended != parts else None


def _mended(part: str) -> str:
    part = re.sub(_COMPARISON, "==", part)
    return re.sub(r"\b(and|or|not)\b", lambda found: _WORDS[found[1].lower()], part, flags=re.IGNORECASE)
