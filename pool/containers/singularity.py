"""Jobs in images of Apptainer or Singularity: the program's words around the job's own.

The program is no engine: it becomes the job, in the job's account and control group, and ends with it.

    singularity -s exec -S /tmp -W SCRATCH --pwd SCRATCH -B SCRATCH --home SCRATCH -C IMAGE SCRATCH/program words

Source: HTCondor manual, "Configuration Macros" (SINGULARITY, SINGULARITY_BIND_EXPR, SINGULARITY_TARGET_DIR ...), and
Apptainer's user guide for the options.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pool.base.errors import ClassAdError, PoolError, UserError
from pool.base.paths import is_below
from pool.base.words import split_list
from pool.classad import ClassAd, expr
from pool.containers.default_image import default_image, image_asked_for, is_registrys
from pool.containers.engine import extra_words, holds, is_true, knob
from pool.execute.plan import LAUNCHED_NAME, RunPlan
from pool.jobs.vocabulary.universes import Universe

KNOBS: Final = (
    "SINGULARITY",
    "SINGULARITY_ADD_ROCM_FLAG",
    "SINGULARITY_ALLOWED_JOB_ENV_VARS",
    "SINGULARITY_BIND_EXPR",
    "SINGULARITY_EXTRA_ARGUMENTS",
    "SINGULARITY_IGNORE_MISSING_BIND_TARGET",
    "SINGULARITY_IMAGE_EXPR",
    "SINGULARITY_JOB",
    "SINGULARITY_RUN_TEST_BEFORE_JOB",
    "SINGULARITY_TARGET_DIR",
    "SINGULARITY_TEST_TIMEOUT",
    "SINGULARITY_USE_LAUNCHER",
    "SINGULARITY_USE_PID_NAMESPACES",
    "SINGULARITY_VERBOSITY",
)
CONTAINED: Final = ("-C",)
CONTAINED_BUT_FOR_PIDS: Final = ("--contain", "--ipc", "--cleanenv")
_NOT_TAKEN_ALONG: Final = ("APPTAINER_", "SINGULARITY_")
_CREDENTIALS: Final = frozenset(
    f"{program}_DOCKER_{what}" for program in ("APPTAINER", "SINGULARITY") for what in ("USERNAME", "PASSWORD")
)
"""What a job may tell the program all the same: whom a registry shall take it for."""
LAUNCHER: Final = ("/bin/sh", "-c", f': > "$_CONDOR_SCRATCH_DIR/{LAUNCHED_NAME}"; exec "$@"', "launcher")
"""What the image runs in the place of the job's program: it leaves a mark in the sandbox, and becomes that program."""
_DOCKER: Final = "docker://"
_OPENCL: Final = "/etc/OpenCL/vendors"
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
COMPLAINT_MAX: Final = 255
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The program's own, where the job says none."""


class NoSingularity(PoolError):
    """Another machine may have the program; here the job must not run without its image."""


def runs_in_singularity(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> bool:
    """Whether the job runs in such an image on this machine: it asks for one, or the machine's owner wants it."""
    if job.eval_int("JobUniverse", Universe.VANILLA) != Universe.VANILLA:
        return False
    if job.eval_bool("WantDocker", False):
        return False
    asks = job.eval_bool("WantSIF", False) or job.eval_bool("WantSandboxImage", False)
    if asks:
        return bool(knob(knobs, "SINGULARITY"))  # else it is told that its image has no place here
    if job.eval_bool("WantContainer", False) and job.eval_bool("WantDockerImage", False):
        return _fetches_images(slot, knobs)
    if holds(knob(knobs, "SINGULARITY_JOB"), slot, job, default=False):
        return True
    image = default_image(job, slot, knobs)
    return bool(image) and (not is_registrys(image) or _fetches_images(slot, knobs))


def _fetches_images(slot: ClassAd, knobs: Mapping[str, str]) -> bool:
    """Whether it is this program that runs images of registries: where there is an engine, that does."""
    works = bool(knob(knobs, "SINGULARITY")) and slot.eval_bool("HasSingularity", False)
    return bool(works) and not slot.eval_bool("HasDocker", False) and bool(slot.eval_bool("HasDockerURL", True))


def in_singularity(
    plan: RunPlan,
    job: ClassAd,
    slot: ClassAd,
    knobs: Mapping[str, str],
    sandbox: str,
    private: tuple[str, ...] = (),
    *,
    is_there: Callable[[str], bool],
) -> RunPlan:
    """The plan with the program in front. UserError when no image is to be found, NoSingularity when no program is.

    `private`: directories that each job has for itself; `is_there` says whether a path is there on this machine.
    """
    program = knob(knobs, "SINGULARITY")
    if not program:
        raise NoSingularity("The job is to run in a Singularity image, and this machine has no such program")
    image = _image(job, slot, knobs, plan.directory)
    inside = _text(knob(knobs, "SINGULARITY_TARGET_DIR"), slot, job) or job.eval_str("ContainerTargetDir") or ""
    inside = inside.rstrip("/")
    elsewhere = plan.directory != sandbox
    # Without a program of the job's it is the image's own that runs.
    verb = "exec" if job.eval_str("Cmd") else "run"
    words = [*(word for word in [knob(knobs, "SINGULARITY_VERBOSITY")] if word), verb]
    words += _places(plan.directory, sandbox, inside, private)
    words += _gpu_options(slot, knobs)
    for bind in _binds(job, slot, knobs, image, is_there):
        words += ["-B", bind]
    # A job that runs in a directory of its own keeps the home that its account has.
    if not elsewhere:
        words += ["--home", f"{sandbox}:{inside}" if inside else sandbox]
    # Behind the mounts: -C takes away what the program would mount of itself, and nothing that was asked for.
    words += containment(own_pids(knobs, slot))
    extra = knob(knobs, "SINGULARITY_EXTRA_ARGUMENTS")
    words += extra_words(_text(extra, slot, job, default=extra))
    jobs = [_moved(plan.program, sandbox, inside)] if verb == "exec" else []
    # An image's own program is started by the image's own script: nothing can be put before it.
    launches = verb == "exec" and is_true(knob(knobs, "SINGULARITY_USE_LAUNCHER"), default=False)
    return replace(
        plan,
        program=program,
        arguments=(*words, image, *(LAUNCHER if launches else ()), *jobs, *plan.arguments),
        environment=(environment := _environment(plan.environment, knobs, sandbox, inside)),
        inside=_told(environment),
        test=_test(program, words, words.index(verb), image, knobs),
        mark=posixpath.join(sandbox, LAUNCHED_NAME) if launches else "",
    )


def _places(directory: str, sandbox: str, inside: str, private: tuple[str, ...]) -> list[str]:
    """Where the job is and works, and what it has for itself: -S is a directory in memory or in -W's."""
    elsewhere = directory != sandbox
    mounted = [inside or sandbox, *([directory] if elsewhere else [])]
    # Below a private directory the program finds no place to mount these.
    own = [one for one in private if not any(is_below(path, one) for path in mounted)]
    words = [word for one in own for word in ("-S", one)]
    words += ["-W", sandbox, "--pwd", directory if elsewhere else inside or directory]
    words += ["-B", f"{sandbox}:{inside}" if inside else sandbox]
    return [*words, "-B", directory] if elsewhere else words


def _test(program: str, words: list[str], at: int, image: str, knobs: Mapping[str, str]) -> tuple[str, ...]:
    """The command that tests the image as the job would use it; `-q` keeps it from telling how a download goes."""
    if not is_true(knob(knobs, "SINGULARITY_RUN_TEST_BEFORE_JOB"), default=True):
        return ()
    # The same options in the same order: what is tested is what will run. `at` is where the command stands.
    return (program, *words[:at], "-q", "test", *words[at + 1 :], image)


def helpers_path(program: str, path: str = PATH) -> str:
    """Where the program looks for its helpers (mksquashfs, squashfuse): beside it, too, wherever it is installed."""
    return ":".join(part for part in (path, posixpath.dirname(program)) if part)


def own_pids(knobs: Mapping[str, str], slot: ClassAd) -> bool:
    """Whether a job in an image sees its own processes only; where nobody says, whether that was seen to work."""
    said = knob(knobs, "SINGULARITY_USE_PID_NAMESPACES").strip().lower()
    # Where the kernel refuses PID namespaces the program would end, and no job run.
    if said in ("", "auto"):
        return slot.eval_bool("HasPidNamespaces", False)
    return is_true(said, default=False)


def containment(own_pids: bool) -> tuple[str, ...]:
    """The options that keep a job in its image."""
    return CONTAINED if own_pids else CONTAINED_BUT_FOR_PIDS


def _gpu_options(slot: ClassAd, knobs: Mapping[str, str]) -> list[str]:
    """What shows the slot's GPUs: of both options the program would obey the first alone."""
    if not slot.eval_str("AssignedGPUs"):
        return []
    options = ["--nv"] if slot.eval_str("GPUs_NvidiaDriver") else []
    if (slot.eval_int("GPUs_Rocm") or 0) > 0 or is_true(knob(knobs, "SINGULARITY_ADD_ROCM_FLAG"), default=False):
        options.append("--rocm")
    return options


def complaint_of(output: str) -> str:
    """What the program has to say of its failure, without colours: what was fatal, else the first line."""
    lines = [line for text in output.splitlines() if (line := COLOURS.sub("", text).strip())]
    # Before that it warns of what the image lacks.
    fatal = next((line for line in lines if line.startswith("FATAL")), lines[0] if lines else "")
    return fatal[:COMPLAINT_MAX]


def _image(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str], directory: str) -> str:
    image = _text(knob(knobs, "SINGULARITY_IMAGE_EXPR") or "SingularityImage", slot, job)
    image = image or image_asked_for(job) or default_image(job, slot, knobs)
    if image.startswith("docker:"):
        image = _DOCKER + image.removeprefix("docker:").removeprefix("//")
    # The name becomes a word of the program's command line, where it would be an option.
    if not image or image.startswith("-"):
        raise UserError("The job is to run in a Singularity image, and names none", expected="container_image")
    if "://" in image or image.startswith("/"):
        return image
    return posixpath.join(directory, image)


def _binds(
    job: ClassAd, slot: ClassAd, knobs: Mapping[str, str], image: str, is_there: Callable[[str], bool]
) -> list[str]:
    """What else is mounted: all of SINGULARITY_BIND_EXPR that is there."""
    binds: list[str] = []
    skips = is_true(knob(knobs, "SINGULARITY_IGNORE_MISSING_BIND_TARGET"), default=False)
    wanted = _text(knob(knobs, "SINGULARITY_BIND_EXPR") or "SingularityBind", slot, job).split()
    # By these files programs find out which makers' GPUs there are.
    if slot.eval_str("AssignedGPUs") and _OPENCL not in wanted:
        wanted.append(_OPENCL)
    for bind in wanted:
        source, _, rest = bind.partition(":")
        target = rest.partition(":")[0] or source
        # The program ends where a source is missing; HTCondor passes over it, and so do we.
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
    # Whole parts of a path: /sandbox1 does not lie in /sandbox.
    return inside + path[len(sandbox) :] if inside and (path == sandbox or path.startswith(f"{sandbox}/")) else path


def _told(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the program's environment the job has in its image, by the job's own names."""
    carried = ((*name.partition("ENV_"), value) for name, value in environment.items())
    return {name: value for program, _, name, value in carried if program in ("APPTAINER", "SINGULARITY") and name}


def _environment(given: Mapping[str, str], knobs: Mapping[str, str], sandbox: str, inside: str) -> dict[str, str]:
    """What the job has in its image: all of its own, under the names by which the program takes it along."""
    program = knob(knobs, "SINGULARITY")
    allowed = {*_CREDENTIALS, *split_list(knob(knobs, "SINGULARITY_ALLOWED_JOB_ENV_VARS"))}
    prefix = "APPTAINER" if "apptainer" in posixpath.basename(program) else "SINGULARITY"
    made = {f"{prefix}_CACHEDIR": sandbox, f"{prefix}_TMPDIR": sandbox}
    made["PATH"] = helpers_path(program)
    for name, value in given.items():
        # The program's own variables choose its plugins and directories, which the machine's owner decides.
        if name == "HOME" or (name.startswith(_NOT_TAKEN_ALONG) and name not in allowed):
            continue
        made[name] = helpers_path(program, value) if name == "PATH" else value
        # --cleanenv lets only these through, without their prefix.
        made[f"{prefix}ENV_{name}"] = value.replace(sandbox, inside) if inside else value
    return made
