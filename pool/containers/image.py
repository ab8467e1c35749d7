"""Which image a job runs in, under which names it is kept, and which images make room for another.

Each user's images carry a second name, `htcondor.org/USER/IMAGE`: by it the engine's own store says what is ours, whose
it is and when it was used last (the name is given anew each time).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pool.base.units import parse_in_units
from pool.classad import ClassAd
from pool.containers.default_image import default_image
from pool.containers.singularity import NoSingularity, runs_in_singularity
from pool.execute.exit import Hold
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.universes import Universe

OURS: Final = "htcondor.org/"
_PORT: Final = "_port_"
_DIGEST: Final = "@sha256:"
_DIGEST_TAG: Final = ":sha256-"


def wanted_image(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> str | Hold | None:
    """The image of a registry or of the engine's store that the job runs in; None: it runs without.

    A Hold says that it wants an image of a kind that this machine cannot run; NoSingularity, that it is the program
    for images which cannot.
    """
    if job.eval_int("JobUniverse", Universe.VANILLA) != Universe.VANILLA:
        return None
    if job.eval_bool("WantDocker", False) or (
        job.eval_bool("WantContainer", False) and job.eval_bool("WantDockerImage", False)
    ):
        # Held, and not run without them: the image of the same name that anybody may have could be another.
        if job.eval_bool("DockerSendCredentials", False):
            return _cannot("docker_send_credentials is true, and no credentials are carried to this machine")
        if runs_in_singularity(job, slot, knobs):
            return None
        if slot.eval_bool("HasSingularity", False) and not slot.eval_bool("HasDockerURL", True):
            raise NoSingularity(
                slot.eval_str("SingularityOfflineReason") or "This machine runs no images of registries"
            )
        image = job.eval_str("DockerImage") or job.eval_str("ContainerImage") or ""
        return _plain(image) if _plain(image) else _cannot("The job names no image")
    # Before the wish for a container: what comes as a file of Singularity's needs no engine.
    if runs_in_singularity(job, slot, knobs):
        return None
    if job.eval_bool("WantContainer", False):
        image = job.eval_str("ContainerImage") or ""
        kind = "a Singularity image file" if image.endswith(".sif") else "an unpacked image"
        return _cannot(f"{image} is {kind}; this machine has no program for it (apptainer, singularity)")
    return _plain(default_image(job, slot, knobs)) or None


def _plain(image: str) -> str:
    return image.strip().removeprefix("docker:").removeprefix("//")


def _cannot(reason: str) -> Hold:
    return Hold(reason, HoldCode.INVALID_DOCKER_IMAGE)


def is_image_name(image: str) -> bool:
    """Whether it can be a name, and nothing that an engine's program takes for an option or two words."""
    # The name becomes a word of the engine's command line, where `-v/:/host` would be an option.
    return bool(image) and not image.startswith("-") and not any(c.isspace() or not c.isprintable() for c in image)


def with_tag(image: str) -> str:
    """The name with the tag `latest` that an engine adds where there is none; a digest stays."""
    # Only behind the last slash: `host:5000/image` names a port, and no tag.
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def own_name(image: str, user: str) -> str:
    """The second name of a user's image. Names allow little: a registry's port and a digest are written otherwise."""
    name, _, digest = image.partition("@")
    host, slash, rest = name.rpartition("/")
    if digest:
        # A digest and a tag together would make two; the digest says which image it is.
        rest = f"{rest.partition(':')[0]}:{digest.replace(':', '-')}"
    return f"{OURS}{_component(user)}/{host.replace(':', _PORT)}{slash}{rest}"


def real_name(own: str) -> str:
    """The image's own name, out of its second one."""
    host, slash, rest = own.removeprefix(OURS).partition("/")[2].rpartition("/")
    return f"{host.replace(_PORT, ':')}{slash}{rest.replace(_DIGEST_TAG, _DIGEST)}"


def _component(user: str) -> str:
    """A user as part of a name; one that had to be bent to fit is told from others by a sum of it."""
    plain = user.replace("@", "_at_")
    if re.fullmatch(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*", plain):
        return plain
    fitting = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-") or "user"
    # So that two users whose names bend to the same word do not share their images.
    return f"{fitting}-{hashlib.sha256(user.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class StoredImage:
    """An image in the engine's store, by one of its names."""

    name: str
    id: str
    size: int = 0
    tagged: str = ""
    """When it got the name: text that sorts as time does."""


LIST_FORMAT: Final = "{{.Repository}}:{{.Tag}} {{.ID}} {{.Size}}"
TAGGED_FORMAT: Final = "{{.Id}} {{.Metadata.LastTagTime}}"


def stored_images(printed: str, tagged: str = "") -> list[StoredImage]:
    """The images that the engine lists (`images --format`), with the times that `inspect` knows of."""
    times: dict[str, str] = {}
    for line in tagged.splitlines():
        long_id, _, time = line.strip().partition(" ")
        times[long_id.rpartition(":")[2]] = time
    found = []
    for line in printed.splitlines():
        words = line.split()
        # A layer or an image that has lost its name: not ours to remove.
        if len(words) < 3 or words[0].startswith("<none>"):
            continue
        name, short, size = words[0], words[1].rpartition(":")[2], "".join(words[2:])
        # `images` shows the beginning of an id, and `inspect` all of it.
        time = next((time for long, time in times.items() if long.startswith(short)), "")
        found.append(StoredImage(name, short, _bytes(size), time))
    return found


def _bytes(size: str) -> int:
    """`179MB` in bytes."""
    return int(parse_in_units(size, 1) or 0)


def ours(images: Iterable[StoredImage]) -> list[StoredImage]:
    """Those that this pool has put there."""
    return [image for image in images if image.name.startswith(OURS)]


def total_size(images: Iterable[StoredImage]) -> int:
    """How much room our images take; one with several names counts once."""
    # By id, for a second name of an image costs nothing.
    return sum({image.id: image.size for image in ours(images)}.values())


def to_remove(images: Iterable[StoredImage], keep: int) -> list[StoredImage]:
    """Which of our images go so that another makes no more than `keep`: those that were not used for the longest."""
    by_id: dict[str, list[StoredImage]] = {}
    for image in ours(images):
        by_id.setdefault(image.id, []).append(image)
    # The newest of its names counts: another user may have used it a moment ago.
    by_age = sorted(by_id.values(), key=lambda named: max(image.tagged for image in named))
    surplus = len(by_age) - max(0, keep - 1)
    return [image for named in by_age[: max(0, surplus)] for image in named]
