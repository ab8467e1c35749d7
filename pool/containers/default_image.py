"""The image that a job names, and the one that a machine's owner has for jobs that name none.

Source: HTCondor manual, "Configuration Macros" (USE_DEFAULT_CONTAINER, DEFAULT_CONTAINER_IMAGE).
"""

from __future__ import annotations

from collections.abc import Mapping

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, expr
from pool.containers.engine import holds, knob


def image_asked_for(job: ClassAd) -> str:
    """What the job says, one of a registry as a URL; empty when it names none."""
    named, docker = job.eval_str("ContainerImage"), job.eval_str("DockerImage")
    return named or (f"docker:{docker.removeprefix('docker:')}" if docker else "")


def default_image(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> str:
    """The owner's image for a job that asks for no container; empty when he has none for it."""
    if job.eval_bool("WantContainer", False) or job.eval_bool("WantDocker", False):
        return ""
    if not holds(knob(knobs, "USE_DEFAULT_CONTAINER"), slot, job, default=False):
        return ""
    text = knob(knobs, "DEFAULT_CONTAINER_IMAGE").strip()
    try:
        value: object = expr(text).eval(slot, job) if text else None
    except ClassAdError:
        value = text
    return value if isinstance(value, str) else ""


def is_registrys(image: str) -> bool:
    """Whether the name is that of an image in a registry of docker's kind."""
    return image.startswith("docker:")
