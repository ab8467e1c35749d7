"""Checkpoints of programs that know nothing of them (want_checkpoint = criu): who can have them, and CRIU's words.

CRIU writes what a job's processes are into a directory of the sandbox, which is kept with the job's files as any
checkpoint is; where the job goes on, CRIU makes the same processes again. So that they find everything where it was,
such a job has a pid namespace, and its sandbox at one place on every machine.

CRIU never has root's rights here: images come back from files that a user can write. It runs as the job's account with
the two capabilities below, and without any way to more, so images can hold nothing that the account could not do.

Source: HTCondor's manual for the names (HasCheckpointing of the old standard universe, CheckpointPlatform,
LastCheckpointPlatform, NumCkpts); criu(8), capabilities(7) on CAP_CHECKPOINT_RESTORE.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from pool.base.paths import is_below
from pool.classad import ClassAd

WANTED: Final = "WantCheckpoint"
CRIU: Final = "criu"
"""The one thing that it can be."""
ABILITY: Final = "HasCriu"
PLATFORM: Final = "CheckpointPlatform"
LAST_PLATFORM: Final = "LastCheckpointPlatform"
PROBLEM: Final = "CriuProblem"
"""Why a machine that has the program cannot use it."""
FAILED: Final = "CheckpointFailedReason"
IMAGES: Final = "_condor_criu"
"""The directory of CRIU's files, in the sandbox."""
PLACE: Final = "/run/minipool/sandbox"
"""Where the sandbox of such a job is, in the job's mount namespace."""
LOG: Final = "criu.log"
PID_FILE: Final = "first.pid"
RESERVED_PIDS: Final = 300
"""The kernel gives none of these out again when it has come to the last: a job has none of them, who helps it has."""
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_RESTORING: Final = ("cap_40", "setpcap")
"""CAP_CHECKPOINT_RESTORE, which older programs know by its number, and what it takes to give rights up."""
_DUMPING: Final = _RESTORING[:1]
_DIGITS: Final = 12


def wants_criu(job: ClassAd) -> bool:
    """Whether the job asked for it."""
    return (job.eval_str(WANTED) or "").lower() == CRIU


def dumping(program: str, pid: int, images: str, uid: int, gid: int, groups: Sequence[int]) -> list[str]:
    """The command that writes down the processes from `pid` on, which stand still afterwards."""
    words = ["dump", "--tree", str(pid), "--leave-stopped", "--link-remap"]
    return [*_as(uid, gid, groups, _DUMPING), program, *words, *_usual(images)]


def restoring(program: str, images: str, uid: int, gid: int, groups: Sequence[int]) -> list[str]:
    """The command that makes them again, as children of whoever runs it; they stand still."""
    words = ["restore", "--restore-detached", "--restore-sibling", "--leave-stopped", "--pidfile", PID_FILE]
    return [*_as(uid, gid, groups, _RESTORING), program, *words, *_usual(images)]


def without_rights(command: Sequence[str], uid: int, gid: int, groups: Sequence[int]) -> list[str]:
    """The command as a job's program runs: as that account, without any capability."""
    return [*_as(uid, gid, groups, ()), *command]


def _usual(images: str) -> list[str]:
    return ["--unprivileged", "--manage-cgroups=ignore", "--images-dir", images, "--log-file", LOG, "-v1"]


def _as(uid: int, gid: int, groups: Sequence[int], capabilities: Sequence[str]) -> list[str]:
    only = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    which = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    caps = [f"--inh-caps={only}", f"--ambient-caps={only}", f"--bounding-set={only}"]
    return ["setpriv", "--no-new-privs", "--reuid", str(uid), "--regid", str(gid), *which, *caps]


def reason(log: str) -> str:
    """What CRIU's log says first of why it has failed."""
    for line in log.splitlines():
        found = re.match(r"(?:\([\d.]+\)\s*)?(?:(?:pie: )?\d+: )?Error\s+(?:\([^)]*\):\s*)?(.+)", line.strip())
        if found is not None:
            return found[1].strip()
    old = re.search(r"unrecognized option '([^']+)'", log)
    return f"this CRIU is too old: it does not know {old[1]}" if old is not None else "CRIU does not say why"


def placed(text: str, sandbox: str) -> str:
    """A text about paths of the sandbox, for a job that has it at PLACE."""
    if is_below(text, sandbox):
        return PLACE + text[len(sandbox) :]
    return re.sub(re.escape(sandbox) + r"(?![\w.-])", PLACE, text)


def platform(system: str, machine: str, release: str, version: str, cpuinfo: str, library: str) -> str:
    """What must be the same where a job goes on: system, kernel, CRIU, what the processor can do, the C library.

    The last two as digests; of the versions the first two numbers.
    """
    found = re.search(r"\d+\.\d+", version)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    able = " ".join(sorted(flags[1].split())) if flags is not None else ""
    kernel = ".".join(release.split(".")[:2])
    processor = hashlib.sha256(able.encode()).hexdigest()[:_DIGITS]
    return f"{system} {machine} {kernel} criu-{found[0] if found else '?'} cpu-{processor} libc-{library[:_DIGITS]}"


def has_no_rights(status: dict[str, list[str]], uid: int, gid: int, groups: Sequence[int]) -> bool:
    """Whether a thread, by its /proc/PID/status, is that account's, has no capability and can gain none."""
    ids = status.get("Uid") == [str(uid)] * 4 and status.get("Gid") == [str(gid)] * 4
    own = ids and set(status.get("Groups", ["?"])) <= {str(one) for one in groups}
    capabilities = (status.get(name, ["?"]) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    return own and all(set(words[0]) == {"0"} for words in capabilities) and status.get("NoNewPrivs") == ["1"]
