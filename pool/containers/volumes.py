"""What of the machine a container sees: the sandbox, the job's own directory, and what its owner mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd
from pool.containers.engine import VOLUME, holds, knob
from pool.execute.isolation import private_in_image


@dataclass(frozen=True)
class Volumes:
    """`mounts`: `HOST:INSIDE[:ro]`. `made`: directories of the sandbox that have to be made. `problems`: in words."""

    mounts: tuple[str, ...]
    made: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def volumes_of(
    job: ClassAd, slot: ClassAd, knobs: Mapping[str, str], *, sandbox: str, inside: str, directory: str
) -> Volumes:
    """The mounts of a job's container: `inside` is where it finds its sandbox, `directory` where it begins."""
    for path in (sandbox, inside, directory):
        # The engine parts the places of a mount at colons, and knows no way to quote one.
        if ":" in path:
            raise UserError(f"a container cannot see {path}: its name has a colon")
    mounts = [f"{sandbox}:{inside}"]
    if directory != sandbox:
        mounts.append(f"{directory}:{directory}")
    made = []
    for private in private_in_image(knob(knobs, "MOUNT_UNDER_SCRATCH"), job, slot):
        # Inside the sandbox, so that the job's disk use counts it and its removal takes it along.
        behind = posixpath.join(sandbox, private.lstrip("/"))
        made.append(behind)
        mounts.append(f"{behind}:{private}")
    problems = []
    for name in split_list(knob(knobs, "DOCKER_MOUNT_VOLUMES")):
        said = knob(knobs, f"{VOLUME}{name.upper()}").strip()
        if not said:
            problems.append(f"DOCKER_MOUNT_VOLUMES names {name}, and DOCKER_VOLUME_DIR_{name} is not set")
        elif _is_mounted(name, slot, job, knobs):
            mounts.append(said if ":" in said else f"{said}:{said}")
    # Each once: an engine refuses two mounts at one place.
    return Volumes(tuple(dict.fromkeys(mounts)), tuple(made), tuple(problems))


def _is_mounted(name: str, slot: ClassAd, job: ClassAd, knobs: Mapping[str, str]) -> bool:
    """Without a MOUNT_IF always; with one, only where it is true."""
    condition = f"{VOLUME}{name.upper()}_MOUNT_IF"
    # An owner who has written a condition wants it true, not merely not false.
    return condition not in knobs or holds(knobs[condition], slot, job, default=False)
