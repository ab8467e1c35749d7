"""From condor_submit_dag's command line and configuration to its settings."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import MissingValue, Parsed
from pool.base.errors import SubmitError
from pool.dag.submit.settings import LIMITS, Passed, SubmitDag

if TYPE_CHECKING:
    from pool.config import Config

_LIMITS: Final = dict(zip(("maxidle", "maxjobs", "maxpre", "maxpost", "maxhold"), LIMITS, strict=True))


def read_settings(parsed: Parsed, config: Config) -> SubmitDag:
    """What was asked for."""
    rescue = _number(parsed, "dorescuefrom") or 0
    if rescue < 0:
        raise MissingValue("-DoRescueFrom value must be non-negative; aborting.")
    said = parsed.value("config")
    return SubmitDag(
        dag_files=tuple(parsed.words),
        passed=_passed(parsed, config)._replace(do_rescue_from=rescue),
        force=parsed.has("force"),
        update_submit=parsed.has("update_submit"),
        submits=not parsed.has("no_submit"),
        batch_name=(_text(parsed, "batch-name") or "").strip('"'),
        debug=_between(parsed, "debug", 0, 7),
        limits=_limits(parsed),
        always_run_post=_either(parsed, "alwaysrunpost", "dontalwaysrunpost"),
        do_recovery=parsed.has("dorecovery"),
        priority=_number(parsed, "priority") or 0,
        load_save=_text(parsed, "load_save") or "",
        rescue_file=_text(parsed, "rescuefile") or "",
        lock_file=_text(parsed, "lockfile") or "",
        config=os.path.join(os.getcwd(), said) if said else "",
        append=tuple(parsed.values("append")),
    )


def _passed(parsed: Parsed, config: Config) -> Passed:
    rescue = _between(parsed, "autorescue", 0, 1)
    return Passed(
        verbose=parsed.has("verbose"),
        notification=_text(parsed, "notification") or "",
        dagman=_text(parsed, "dagman") or _condor_dagman(),
        use_dag_dir=parsed.has("usedagdir"),
        outfile_dir=_text(parsed, "outfile_dir") or "",
        auto_rescue=int(config.bool("DAGMAN_AUTO_RESCUE")) if rescue is None else rescue,
        allow_version_mismatch=parsed.has("allowversionmismatch"),
        import_env=parsed.has("import_env"),
        include_env=tuple(parsed.values("include_env")),
        insert_env=tuple(pairs.strip() for pairs in parsed.values("insert_env")),
        recurse=parsed.has("do_recurse"),
        suppress_notification=_either(parsed, "suppress_notification", "dont_suppress_notification"),
        submit_method=_between(parsed, "submitmethod", 0, 1),
    )


def with_limits(asked: SubmitDag, words: Sequence[str]) -> SubmitDag:
    """The settings with the limits of the description that is replaced, which come before those asked for now."""
    limits = dict(asked.limits)
    for option, text in zip(words[::2], words[1::2], strict=False):
        key = option.lower().removeprefix("-")
        if key not in _LIMITS or not text.lstrip("-").isdecimal():
            raise SubmitError(f"Error: {option} {text} in the description that is replaced is no limit of DAGMan's")
        limits[_LIMITS[key]] = int(text)
    return asked._replace(limits=limits)


def _limits(parsed: Parsed) -> dict[str, int]:
    given = {option: _number(parsed, key) for key, option in _LIMITS.items()}
    return {option: limit for option, limit in given.items() if limit is not None}


def _condor_dagman() -> str:
    """condor_dagman where the shell finds it, or else beside this tool."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "condor_dagman")
    found = shutil.which("condor_dagman") or (beside if os.access(beside, os.X_OK) else None)
    if found is None:
        raise SubmitError("ERROR: Failed to locate condor_dagman executable in PATH")
    return os.path.abspath(found)


def _text(parsed: Parsed, key: str) -> str | None:
    given = next((one for one in reversed(parsed.given) if one.key == key), None)
    if given is None:
        return None
    text = given.values[0]
    if not text:
        raise MissingValue(f"Error: {given.spelled} additional argument was empty")
    if text.startswith("-"):
        raise MissingValue(f"Error: Option {given.spelled} requires an additional argument")
    return text


def _number(parsed: Parsed, key: str) -> int | None:
    given = next((one for one in reversed(parsed.given) if one.key == key), None)
    if given is None:
        return None
    text = given.values[0]
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise MissingValue(f"Error: {given.spelled} (-{key}) additional argument required to be a integer")
    return int(text)


def _between(parsed: Parsed, key: str, least: int, most: int) -> int | None:
    number = _number(parsed, key)
    if number is not None and not least <= number <= most:
        raise MissingValue(f"Error: -{key} {number}: from {least} to {most}")
    return number


def _either(parsed: Parsed, yes: str, no: str) -> bool | None:
    return True if parsed.has(yes) else False if parsed.has(no) else None
