"""Jobs in images of Apptainer or Singularity: the program's words around the job's own.

The program is no engine: it becomes the job, in the job's account and control group, and ends with it.

    singularity -s exec -S /tmp -W SCRATCH --pwd SCRATCH -B SCRATCH --home SCRATCH -C IMAGE SCRATCH/program words
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pool.classad import ClassAd, expr
from pool.containers.engine import extra_words, holds, is_true, knob
from pool.errors import ClassAdError, UserError
from pool.execute.plan import Plan

KNOBS: Final = (
    "SINGULARITY",
    "SINGULARITY_BIND_EXPR",
    "SINGULARITY_EXTRA_ARGUMENTS",
    "SINGULARITY_IGNORE_MISSING_BIND_TARGET",
    "SINGULARITY_IMAGE_EXPR",
    "SINGULARITY_JOB",
    "SINGULARITY_TARGET_DIR",
    "SINGULARITY_USE_PID_NAMESPACES",
    "SINGULARITY_VERBOSITY",
)
CONTAINED: Final = ("-C",)
CONTAINED_BUT_FOR_PIDS: Final = ("--contain", "--ipc", "--cleanenv")
_NOT_TAKEN_ALONG: Final = ("APPTAINER_", "SINGULARITY_")


def runs_in_singularity(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> bool:
    """Whether the job runs in such an image on this machine: it asks for one, or the machine's owner wants it."""
    if not knob(knobs, "SINGULARITY") or job.eval_int("JobUniverse", 5) != 5:
        return False
    if job.eval_bool("WantDocker", False):
        return False
    asks = job.eval_bool("WantSIF", False) or job.eval_bool("WantSandboxImage", False)
    return asks or holds(knob(knobs, "SINGULARITY_JOB"), slot, job, default=False)


def in_singularity(
    plan: Plan,
    job: ClassAd,
    slot: ClassAd,
    knobs: Mapping[str, str],
    sandbox: str,
    private: tuple[str, ...] = (),
    *,
    is_there: Callable[[str], bool],
) -> Plan:
    """The plan with the program in front. UserError when no image is to be found.

    `private`: directories that each job has for itself; `is_there` says whether a path is there on this machine.
    """
    program, image = knob(knobs, "SINGULARITY"), _image(job, slot, knobs, plan.directory)
    inside = _text(knob(knobs, "SINGULARITY_TARGET_DIR"), slot, job) or job.eval_str("ContainerTargetDir") or ""
    inside = inside.rstrip("/")
    words = [*(word for word in [knob(knobs, "SINGULARITY_VERBOSITY")] if word), "exec"]
    for directory in private:
        words += ["-S", directory]
    words += ["-W", sandbox]
    elsewhere = plan.directory != sandbox
    if inside:
        words += ["--pwd", plan.directory if elsewhere else inside, "-B", f"{sandbox}:{inside}"]
    else:
        words += ["--pwd", plan.directory, "-B", sandbox]
    if elsewhere:
        words += ["-B", plan.directory]
    if slot.eval_str("AssignedGPUs"):
        words.append("--nv")
    for bind in _binds(job, slot, knobs, image, is_there):
        words += ["-B", bind]
    if not elsewhere:
        words += ["--home", f"{sandbox}:{inside}" if inside else sandbox]
    own_pids = knob(knobs, "SINGULARITY_USE_PID_NAMESPACES").strip().lower() not in ("false", "f", "no", "0")
    words += CONTAINED if own_pids else CONTAINED_BUT_FOR_PIDS
    extra = knob(knobs, "SINGULARITY_EXTRA_ARGUMENTS")
    words += extra_words(_text(extra, slot, job, default=extra))
    return replace(
        plan,
        program=program,
        arguments=(*words, image, _moved(plan.program, sandbox, inside), *plan.arguments),
        environment=_environment(plan.environment, program, sandbox, inside),
    )


def _image(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str], directory: str) -> str:
    image = _text(knob(knobs, "SINGULARITY_IMAGE_EXPR") or "SingularityImage", slot, job)
    image = image or job.eval_str("ContainerImage") or ""
    if not image or image.startswith("-"):
        raise UserError("The job is to run in a Singularity image, and names none", expected="container_image")
    if "://" in image or image.startswith("/"):
        return image
    return posixpath.join(directory, image)


def _binds(
    job: ClassAd, slot: ClassAd, knobs: Mapping[str, str], image: str, is_there: Callable[[str], bool]
) -> list[str]:
    """What else is mounted: all of SINGULARITY_BIND_EXPR that is there."""
    binds = []
    skips = is_true(knob(knobs, "SINGULARITY_IGNORE_MISSING_BIND_TARGET"), default=False)
    for bind in _text(knob(knobs, "SINGULARITY_BIND_EXPR") or "SingularityBind", slot, job).split():
        source, _, rest = bind.partition(":")
        target = rest.partition(":")[0] or source
        if not is_there(source) or (skips and is_there(f"{image}/.") and not is_there(f"{image}/{target}/.")):
            continue
        binds.append(bind)
    return binds


def _text(said: str, slot: ClassAd, job: ClassAd, default: str = "") -> str:
    """The value of an expression that is text; what is no expression stands for itself.

    `default`: what counts where the value is no text (words that look like an expression, for one).
    """
    if not said.strip():
        return ""
    try:
        value: object = expr(said).eval(slot, job)
    except ClassAdError:
        return said.strip()
    return value if isinstance(value, str) else default


def _moved(path: str, sandbox: str, inside: str) -> str:
    return inside + path[len(sandbox) :] if inside and (path == sandbox or path.startswith(f"{sandbox}/")) else path


def _environment(given: Mapping[str, str], program: str, sandbox: str, inside: str) -> dict[str, str]:
    """What the job has in its image: all of its own, under the names by which the program takes it along."""
    prefix = "APPTAINER" if "apptainer" in posixpath.basename(program) else "SINGULARITY"
    made = {f"{prefix}_CACHEDIR": sandbox, f"{prefix}_TMPDIR": sandbox}
    for name, value in given.items():
        if name == "HOME" or name.startswith(_NOT_TAKEN_ALONG):
            continue
        made[name] = value
        made[f"{prefix}ENV_{name}"] = value.replace(sandbox, inside) if inside else value
    return made
