"""Jobs whose files are kept at the access point: where, and what a job's ad says once they are there.

    submitted with -spool: on hold (16) until its input has come -> its Iwd is the spool -> output stays there until it
    is fetched. What its user said is kept as SUBMIT_<name>: paths of the machine that submitted it.

Evicted and self-checkpointing jobs have a directory there too, in which each checkpoint is one directory.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

from pool.base.errors import PeerError
from pool.base.ids import JobId
from pool.base.url import is_url
from pool.classad import ClassAd, Member
from pool.execute.plan import NULL, STDERR_NAME, STDOUT_NAME
from pool.files.plugins import brought_plugins
from pool.files.transfer import (
    INPUT_LISTS,
    InputItem,
    check_name,
    file_list,
    input_items,
    listed_inputs,
    remaps_of,
)

PREFIX: Final = "SUBMIT_"
SPOOLED: Final = "spool-"
"""How transfers to and from the spool are called, before the job's id."""
FINISHED: Final = "StageInFinishTime"
"""StageInFinish to the microsecond: a job may be quicker than a second."""
IWD: Final = "SUBMIT_Iwd"
PUT_ASIDE: Final = ("UserLog", "DAGManNodesLog")
"""Files that the schedd would write to, and that may not be on this machine at all."""
_PATHS: Final = (("Cmd", "TransferExecutable"), ("In", "TransferIn"), ("X509UserProxy", ""))
_SPREAD: Final = 10000
CHECKPOINT: Final = "_condor_checkpoint_"


def spool_path(spool: str, id: JobId) -> str:
    """A job's directory; never too many of them side by side."""
    name = f"cluster{id.cluster}.proc{id.proc}.subproc0"
    return posixpath.join(spool, str(id.cluster % _SPREAD), str(id.proc % _SPREAD), name)


def job_of(name: str) -> JobId | None:
    """Whose directory this is, by its name."""
    found = re.fullmatch(r"cluster(\d+)\.proc(\d+)\.subproc0(?:\.tmp)?", name)
    return None if found is None else JobId(int(found[1]), int(found[2]))


def is_spooled(job: ClassAd) -> bool:
    """Whether the job's files are here."""
    return IWD in job


def spooled_items(job: ClassAd) -> list[InputItem]:
    """What the submitting machine sends: the job's input under the names of the sandbox, directories as directories."""
    return [
        InputItem(item.source, item.name or posixpath.basename(item.source), program=item.program)
        for item in input_items(job)
    ]


def spooled(job: ClassAd, directory: str, now: float) -> dict[str, Member]:
    """What changes in the ad when all input has come to `directory`."""
    changes: dict[str, Member] = {
        IWD: job.eval_str("Iwd") or "/",
        "Iwd": directory,
        "StageInFinish": int(now),
        FINISHED: now,
    }
    for name, flag in _PATHS:
        path = job.eval_str(name)
        if path and path != NULL and not is_url(path) and (not flag or job.eval_bool(flag, True)):
            changes[PREFIX + name] = path
            changes[name] = posixpath.basename(path)
    for name in PUT_ASIDE:
        if path := job.eval_str(PREFIX + name):
            changes[name] = posixpath.basename(path)
    if plugins := brought_plugins(job):
        changes[PREFIX + "TransferPlugins"] = job.eval_str("TransferPlugins") or ""
        changes["TransferPlugins"] = ";".join(
            f"{scheme}={posixpath.basename(path)}" for scheme, path in plugins.items()
        )
    keeps = job.eval_bool("PreserveRelativePaths", False)
    for name in INPUT_LISTS:
        if inputs := file_list(job, name):
            changes[PREFIX + name] = job.eval_str(name) or ""
            changes[name] = ",".join(_kept_name(path, keeps) for path in inputs)
    if said := job.eval_str("TransferOutputRemaps"):
        changes[PREFIX + "TransferOutputRemaps"] = said
        urls = {name: target for name, target in remaps_of(job).items() if is_url(target)}
        changes["TransferOutputRemaps"] = ";".join(f"{_escaped(n)}={_escaped(t)}" for n, t in urls.items())
    return changes


def _kept_name(path: str, keeps: bool | None) -> str:
    if is_url(path) or (keeps and not path.startswith("/")):
        return path
    slash = "/" if path.endswith("/") else ""
    return posixpath.basename(path.rstrip("/")) + slash


def _escaped(text: str) -> str:
    return re.sub(r"([;=\\])", r"\\\1", text)


def outputs(job: ClassAd, found: Mapping[str, float]) -> list[str]:
    """What of a spooled job's directory its user gets: what came after the input. `found`: names and their times."""
    finished = job.eval_float(FINISHED) or 0.0
    inputs = {posixpath.basename(job.eval_str(name) or "") for name, _ in _PATHS}
    inputs |= {path.strip("/").partition("/")[0] for path in listed_inputs(job)}
    inputs |= {posixpath.basename(path) for path in brought_plugins(job).values()}
    return sorted(
        name
        for name, changed in found.items()
        if not name.startswith((CHECKPOINT, ".")) and (name not in inputs or changed > finished)
    )


def fetched_to(job: ClassAd) -> Callable[[str], str]:
    """Where on the submitting machine a file of the spool goes; PeerError where there is no place for it."""
    iwd = job.eval_str(IWD) or job.eval_str("Iwd") or "/"
    remaps = remaps_of(ClassAd({"TransferOutputRemaps": job.eval_str(PREFIX + "TransferOutputRemaps") or ""}))
    for standard, attribute in ((STDOUT_NAME, "Out"), (STDERR_NAME, "Err")):
        if path := job.eval_str(attribute):
            remaps.setdefault(standard, path)
    for name in PUT_ASIDE:
        if path := job.eval_str(PREFIX + name):
            remaps[posixpath.basename(path)] = path

    def where(name: str) -> str:
        check_name(name)
        head, _, rest = name.partition("/")
        target = remaps.get(name) or (posixpath.join(remaps.get(head, head), rest) if rest else head)
        if is_url(target):
            raise PeerError(f"{name} went to {target}")
        return posixpath.join(iwd, target)

    return where
