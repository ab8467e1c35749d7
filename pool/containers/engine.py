"""The machine's container engine as its owner has configured it: the DOCKER knobs, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pool.base.argv import split_new
from pool.base.errors import ClassAdError, ConfigError, PoolError
from pool.base.words import TRUE_WORDS
from pool.classad import ClassAd, expr
from pool.classad.values.truth import truth_of

LABEL: Final = "org.htcondorproject=True"
"""What HTCondor marks its containers with."""
EXECUTE_LABEL: Final = "org.htcondorproject.execute"
"""Ours: the directory of all sandboxes, which tells one pool's containers from another's on the same machine."""
STARTER_LABEL: Final = "org.htcondorproject.starter"
SUDO: Final = "/usr/bin/sudo"
KNOBS: Final = (
    "DOCKER",
    "DOCKER_DROP_ALL_CAPABILITIES",
    "DOCKER_EXTRA_ARGUMENTS",
    "DOCKER_IMAGE_CACHE_SIZE",
    "DOCKER_LOG_DRIVER_NONE",
    "DOCKER_MAP_ALL_GPUS",
    "DOCKER_MOUNT_VOLUMES",
    "DOCKER_NETWORK_NAME",
    "DOCKER_RUN_UNDER_INIT",
    "DOCKER_SHM_SIZE",
    "DOCKER_SKIP_IMAGE_ARCH_CHECK",
    "DOCKER_TRUST_LOCAL_IMAGES",
    "MOUNT_UNDER_SCRATCH",
    "NO_JOB_NETWORKING",
    "USE_DEFAULT_CONTAINER",
    "DEFAULT_CONTAINER_IMAGE",
)
VOLUME: Final = "DOCKER_VOLUME_DIR_"
EITHERS: Final[dict[str, bool | str]] = {"HasContainer": True, "HasDockerURL": True}
"""What a machine can do that has an engine, or Apptainer, or both."""


class EngineError(PoolError):
    """The engine does not do what it has to; another machine's may."""


@dataclass(frozen=True)
class Version:
    """What the program says of itself."""

    text: str


def program_words(said: str) -> list[str]:
    """DOCKER as words: the program, with sudo before it where the owner wants that; none where there is no engine."""
    words = said.split()
    if words and words[0] == "sudo":
        # By its full path: whoever sets PATH shall not choose the program that gets root's rights.
        words[0] = SUDO
        if len(words) == 1:
            raise ConfigError("DOCKER is the word sudo alone", expected="sudo and the full path of docker")
    return words


def version_of(printed: str) -> Version:
    """What `-v` printed; EngineError when that is no container engine's way to say it."""
    lines = printed.strip().splitlines()
    # One line and no more: a script in the place of an engine tends to print a page of help.
    if len(lines) == 1 and re.match(r"(docker|podman) version \S", lines[0], re.IGNORECASE):
        return Version(lines[0])
    shown = lines[0][:80] if lines else ""
    raise EngineError(f"it is no container engine: `-v` printed {shown!r}")


def holds(expression: str, slot: ClassAd, job: ClassAd, *, default: bool) -> bool:
    """A truth value of the machine's (MY) about the job (TARGET); `default` where it is neither true nor false."""
    text = expression.strip()
    if not text:
        return default
    try:
        value = expr(text).eval(slot, job)
    except ClassAdError:
        return default
    # Undefined and error are no answer, and a machine's owner has said what holds without one.
    return default if (truth := truth_of(value)) is None else truth


def is_true(said: str | None, *, default: bool) -> bool:
    """A plain truth value of the configuration."""
    text = (said or "").strip().lower()
    return default if not text else text in TRUE_WORDS or text == "y"


def extra_words(said: str) -> list[str]:
    """DOCKER_EXTRA_ARGUMENTS: blanks separate, or the new form between double quotes."""
    text = said.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return split_new(text[1:-1].replace('""', '"'))
    return text.split()


def slot_facts(volumes: Sequence[str], networks: str) -> dict[str, bool | str]:
    """What a slot's ad says about volumes and networks, whatever the engine does."""
    facts: dict[str, bool | str] = {f"HasDockerVolume{name}": True for name in volumes}
    if networks.strip():
        facts["DockerNetworks"] = networks.strip()
    return facts


def working_facts(version: Version) -> dict[str, bool | str]:
    """What a slot's ad says when containers run here."""
    return {
        "HasDocker": True,
        **EITHERS,
        "DockerVersion": version.text,
    }


def offline_facts(version: Version | None, reason: str) -> dict[str, bool | str]:
    """What it says when they do not, though there is an engine's program."""
    facts: dict[str, bool | str] = {
        "HasDocker": False,
        "HasDockerURL": False,
        "HasContainer": False,
        "DockerOfflineReason": reason,
    }
    return facts if version is None else {**facts, "DockerVersion": version.text}


def with_singularity(facts: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """What an engine's facts say of the machine, where Apptainer or Singularity is `known` to run containers too."""
    if known.get("HasSingularity") is not True:
        return dict(facts)
    # A program that runs images and has something to complain of all the same cannot fetch any.
    fetches = facts.get("HasDockerURL") is True or not known.get("SingularityOfflineReason")
    return {**facts, "HasContainer": True, "HasDockerURL": fetches}


def knob(knobs: Mapping[str, str], name: str) -> str:
    """One of the knobs; empty where nobody has set it."""
    return knobs.get(name, "")
