"""Steps that say what runs: universe, directory, program, arguments, environment, standard files.

The commands are those of HTCondor's manual page condor_submit. Arguments and environments have an old style and a new
one (in double quotes); both at once have to be allowed. Paths are completed with `initialdir`; what must exist on this
host is looked at now, unless `skip_filechecks` says otherwise.
"""

from __future__ import annotations

from pool.base.argv import BadQuoting, join_new, split_new
from pool.base.ids import is_number
from pool.base.words import SPACE
from pool.jobs.vocabulary.nodes import NODE_MARK
from pool.jobs.vocabulary.universes import SUPPORTED, Universe
from pool.submit.commands import UNIVERSES
from pool.submit.job import JobDraft, as_bool, compressed, strip_quotes
from pool.submit.quoting import (
    EnvironmentFilter,
    arguments_old_style,
    is_new_style,
    join_environment,
    join_environment_old_style,
    parse_environment,
    unquote_new_style,
)

NULL_FILE = "/dev/null"
_NETWORK = "a job in an image file or an unpacked image has its machine's network"
_WITHOUT_ENGINE = {
    "docker_network_type": _NETWORK,
    "container_service_names": f"{_NETWORK}, and its ports",
    "docker_pull_policy": "an image file or an unpacked image is not pulled",
    "docker_override_entrypoint": "an image file or an unpacked image runs the executable without an entry point",
}
"""What docker and podman do with their images, which those of Apptainer and Singularity are not."""


def universe(job: JobDraft) -> None:
    """The universe, which is the same for all jobs of a cluster."""
    said = job.param("universe", "JobUniverse") or job.knob("DEFAULT_UNIVERSE")
    job.universe = _universe_number(job, said) if said else Universe.VANILLA
    if job.universe in (Universe.VANILLA, Universe.LOCAL):
        _topping(job)
    job.put("JobUniverse", job.universe)
    job.scope.defaults["node"] = NODE_MARK if job.universe == Universe.PARALLEL else ""
    if job.is_docker:
        job.put("WantDocker", True)
    if job.is_container:
        job.put("WantContainer", True)


def _universe_number(job: JobDraft, said: str) -> int:
    lower = said.strip(SPACE).lower()
    number = int(lower) if is_number(lower) else UNIVERSES.get(lower, 0)
    if lower in ("docker", "container"):
        job.is_docker = lower == "docker"
        job.is_container = lower == "container"
        return Universe.VANILLA
    if not number or number not in UNIVERSES.values():
        from pool.submit import meant

        error = job.error(f"I don't know about the '{said}' universe.", "universe", "JobUniverse")
        error.expected = meant.universe(said)
        raise error
    if number not in SUPPORTED:
        name = next(name for name, known in UNIVERSES.items() if known == number)
        raise job.error(f"'{name.capitalize()}' is not a supported universe.", "universe", "JobUniverse")
    return number


def _topping(job: JobDraft) -> None:
    container = job.param("container_image", "ContainerImage")
    if job.is_docker:
        if container:
            raise job.error("docker universe does not allow use of container_image.", "container_image")
        return
    docker = job.param("docker_image", "DockerImage")
    if docker and container:
        raise job.error("cannot declare both docker_image and container_image", "docker_image", "container_image")
    if docker or container:
        job.is_container = True
        if docker:
            job.put("WantDockerImage", True)


def directory(job: JobDraft) -> None:
    """Iwd, and the name of the submit file."""
    said = job.param("initialdir", "Iwd") or job.param("initial_dir", "job_iwd")
    cwd = job.around.cwd
    job.iwd = compressed(said if said and said.startswith("/") else f"{cwd}/{said}" if said else cwd)
    if said and not job.around.world.is_dir(job.iwd):
        raise job.error(f"No such directory: {job.iwd}", "initialdir", "Iwd", "initial_dir", "job_iwd")
    job.scope.expander.cwd = job.iwd
    job.put("Iwd", job.iwd)
    file = job.param("SUBMIT_FILE")
    if file:
        job.put("JobSubmitFile", file)


def executable(job: JobDraft) -> None:
    """Cmd, the image, and whether the program is transferred."""
    if job.is_docker:
        _docker_image(job)
    if job.is_container:
        _container_image(job)
    if job.universe == Universe.VM:
        _name(job)
        return
    if job.param("shell") and not job.around.interactive:
        job.put("Cmd", "/bin/sh")
        job.put("TransferExecutable", False)
        return
    in_image = job.is_docker or job.is_container
    name = job.param("executable", "Cmd")
    override = job.param("interactive_executable") if job.around.interactive else None
    named = name is not None
    if name is None:
        name = override
    if name is None:
        if job.has("Cmd"):
            return
        if not in_image:
            raise job.error("No 'executable' parameter was provided")
    transfer = _transfer_executable(job, name, in_image)
    full = job.full_path(name, from_cwd=True) if transfer and name is not None else name or ""
    if override is not None:
        if transfer:
            if named:
                job.put("OrigCmd", full)
            job.put("TransferExecutable", False)
        full, transfer = override, False
    job.put("Cmd", full)
    if transfer and name is not None:
        _check_executable(job, name, full)


def _name(job: JobDraft) -> None:
    """A virtual machine has no program; `executable` is what the job is called."""
    name = job.param("executable", "Cmd")
    if name is not None:
        job.put("Cmd", name)
    elif not job.has("Cmd"):
        raise job.error("No 'executable' parameter was provided: it is what tools call the virtual machine")
    job.put("TransferExecutable", False)


def _transfer_executable(job: JobDraft, name: str | None, in_image: bool) -> bool:
    said = job.param("transfer_executable", "TransferExecutable")
    transfer = True
    if said is not None:
        transfer = said[0] not in "Ff"
        if transfer and said[0] not in "TtYy" and as_bool(said) is not True:
            # HTCondor takes everything else for true, `no` and `0` among it
            message = f"transfer_executable={said} is invalid, must be true or false."
            raise job.error(message, "transfer_executable", "TransferExecutable")
        if not transfer:
            job.put("TransferExecutable", False)
    elif in_image and name and name.startswith("/") and _never_transferred(job):
        job.put("TransferExecutable", False)
        transfer = False
    if name is None and transfer:
        job.put("TransferExecutable", False)
        transfer = False
    return transfer


def _never_transferred(job: JobDraft) -> bool:
    return job.around.config.bool("SUBMIT_CONTAINER_NEVER_XFER_ABSOLUTE_CMD", False)


def _docker_image(job: JobDraft) -> None:
    said = job.param("docker_image", "DockerImage")
    if said is None:
        if not job.has("DockerImage"):
            raise job.error("docker jobs require a docker_image", "universe")
        return
    image = strip_quotes(said)
    if not image:
        raise job.error(f"'{said}' is not a valid docker_image", "docker_image")
    job.put("DockerImage", image)


def _container_image(job: JobDraft) -> None:
    docker = job.param("docker_image", "DockerImage")
    if docker:
        image = strip_quotes(docker)
        if not image:
            raise job.error(f"'{docker}' is not a valid docker_image for container universe", "docker_image")
        job.put("DockerImage", image)
    said = job.param("container_image", "ContainerImage")
    if said:
        image = strip_quotes(said)
        if not image or image.startswith(("instance://", "library://", "shub://")):
            raise job.error(f"'{image}' is not a valid container image", "container_image")
        job.put("ContainerImage", image)
        kind = image_kind(image)
        if kind != "docker":
            job.warn_of(_WITHOUT_ENGINE, fine=("false", "host"))
        job.put({"docker": "WantDockerImage", "sif": "WantSIF"}.get(kind, "WantSandboxImage"), True)
    elif not job.has("ContainerImage") and not job.has("DockerImage"):
        raise job.error("container jobs require a container_image or docker_image", "universe")


def image_kind(image: str) -> str:
    """docker, sif or sandbox."""
    text = image.strip(SPACE)
    return "docker" if text.startswith("docker:") else "sif" if text.endswith(".sif") else "sandbox"


def _check_executable(job: JobDraft, name: str, full: str) -> None:
    if "$$" in name or job.around.skip_checks:
        return
    world = job.around.world
    size = world.size(full)
    complaint = ""
    if size is None:
        complaint = f"Can't access executable file {name}: No such file or directory"
    elif size == 0:
        complaint = f"Executable file {name} has zero length"
    elif world.has_crlf(full):
        complaint = f"Executable file {name} is a script with CRLF (DOS/Windows) line endings."
    if not complaint:
        return
    crlf_allowed = "CRLF" in complaint and job.flag("allow_crlf_script", "", False)
    if crlf_allowed or job.param("skip_filechecks") == "warn":
        job.warn(complaint)
    else:
        raise job.error(complaint, "executable", "Cmd")


def file_checks(job: JobDraft) -> None:
    """skip_filechecks must be a truth value or `warn`."""
    said = job.param("skip_filechecks")
    if said is not None and said.lower() != "warn" and as_bool(said) is None:
        raise job.error(f"skip_filechecks={said} is invalid, must be 'warn' or a boolean", "skip_filechecks")


def arguments(job: JobDraft) -> None:
    """Args or Arguments, by the style that they were written in."""
    shell = job.param("shell")
    if shell and not job.around.interactive:
        job.put("Arguments", join_new(("-c", shell)))
        return
    old, new = job.param("arguments", "Args"), job.param("arguments2")
    both = job.flag("allow_arguments_v1", "", False)
    if old and new and not both:
        raise job.error(_BOTH.format("arguments", "allow_arguments_v1"), "arguments2", "arguments")
    if old is None and new is None:
        if not job.has("Args") and not job.has("Arguments"):
            job.put("Arguments", "")
            _needs_class(job, "")
    else:
        attribute, value = _argument_text(job, old, new, "arguments", "Args", "Arguments")
        job.put(attribute, value)
        _needs_class(job, value)
    override = job.param("interactive_args") if job.around.interactive else None
    if override:
        attribute, value = _argument_text(job, override, None, "interactive_args", "Args", "Arguments")
        for name in ("Args", "Arguments"):
            kept = job.text(name)
            if kept is not None and name == attribute:
                job.put("Orig" + name, kept)
        job.put(attribute, value)


_BOTH = (
    "If you wish to specify both '{0}' and\n'{0}2' for maximal compatibility with different\n"
    "versions of Condor, then you must also specify\n{1}=true."
)


def _argument_text(
    job: JobDraft, old: str | None, new: str | None, command: str, old_name: str, new_name: str
) -> tuple[str, str]:
    text = new if new is not None else old or ""
    try:
        if new is not None and not is_new_style(new):
            raise BadQuoting("Expecting double-quoted input string (V2 format).")
        if is_new_style(text):
            return new_name, join_new(split_new(unquote_new_style(text)))
        return old_name, arguments_old_style(text)
    except BadQuoting as why:
        message = f"{why}\nThe full arguments you specified were: {text}"
        raise job.error(message, command + "2" if new is not None else command, old_name) from None


def _needs_class(job: JobDraft, value: str) -> None:
    if job.universe == Universe.JAVA and not value:
        example = "In Java universe, you must specify the class name to run.\nExample:\n\narguments = MyClass\n"
        raise job.error(example, "universe")


def java_arguments(job: JobDraft) -> None:
    """The arguments of the Java machine."""
    plain, older = job.param("java_vm_arguments", "JavaVMArgs"), job.param("java_vm_args")
    if plain and older:
        raise job.error("you specified a value for both java_vm_args and java_vm_arguments.", "java_vm_args")
    old, new = plain or older, job.param("java_vm_arguments2")
    if old and new and not job.flag("allow_arguments_v1", "", False):
        raise job.error(_BOTH.format("java_vm_arguments", "allow_arguments_v1"), "java_vm_arguments2")
    if old or new:
        name, value = _argument_text(job, old, new, "java_vm_arguments", "JavaVMArgs", "JavaVMArguments")
        if value:
            job.put(name, value)


def environment(job: JobDraft) -> None:
    """Environment, or Env where the user wrote the older command in the older style."""
    old, new = job.param("environment", "env"), job.param("environment2")
    allow_old = job.flag("allow_environment_v1", "", False)
    prefers_old = False
    if old and not new:
        said = job.param("env")
        prefers_old = said is not None and not is_new_style(said)
    if old and new and not allow_old:
        raise job.error(_BOTH.format("environment", "allow_environment_v1"), "environment2", "environment")
    text = new or old
    if text is None and not job.is_first and job.param("getenv", "get_env") is None:
        return
    try:
        if new and not is_new_style(new):
            raise BadQuoting("Expecting a double-quoted environment string (V2 format).")
        variables = parse_environment(text) if text else {}
    except BadQuoting as why:
        message = f"{why}\nThe environment you specified was: '{text}'"
        raise job.error(message, "environment2" if new else "environment", "env") from None
    _import_environment(job, variables, old_style=bool(old and not new))
    has_old, has_new = job.has("Env"), job.has("Environment")
    if text is None and not variables and (has_old or has_new) and job.is_first:
        return  # SUBMIT_ATTRS gave one
    if prefers_old or (has_old and not prefers_old):
        try:
            job.put("Env", join_environment_old_style(variables))
        except BadQuoting as why:
            raise job.error(f"failed to insert environment into job ad: {why}", "env", "environment") from None
        job.put("EnvDelim", ";")
    if not prefers_old or has_new:
        job.put("Environment", join_environment(variables))


def _import_environment(job: JobDraft, variables: dict[str, str], *, old_style: bool) -> None:
    said = job.param("getenv", "get_env")
    if said is None:
        return
    everything = as_bool(said)
    if everything is False:
        return
    if everything and not job.around.config.bool("SUBMIT_ALLOW_GETENV", True):
        raise job.error(
            "getenv = true command not allowed because administrator has set SUBMIT_ALLOW_GETENV = false", "getenv"
        )
    wanted = EnvironmentFilter("" if everything else said)
    for name, value in job.around.environ.items():
        if old_style and any(bad in value for bad in (";", "\n")):
            continue
        if name not in variables and wanted.passes(name, value):
            variables[name] = value


# attribute, transfer attribute, stream attribute, commands
_STANDARD = (
    ("In", "TransferIn", "StreamIn", "transfer_input", "stream_input", "input", "stdin"),
    ("Out", "TransferOut", "StreamOut", "transfer_output", "stream_output", "output", "stdout"),
    ("Err", "TransferErr", "StreamErr", "transfer_error", "stream_error", "error", "stderr"),
)


def standard_files(job: JobDraft) -> None:
    """In, Out and Err, and whether each is transferred or streamed."""
    for attribute, transfer_name, stream_name, transfer_command, stream_command, command, other in _STANDARD:
        before = job.ad.get(transfer_name)
        transfer = before if isinstance(before, bool) else True
        said = job.flag(transfer_command, transfer_name, transfer)
        must_set, transfer = said != transfer, said
        kept = job.ad.get(stream_name)
        stream = job.flag(stream_command, stream_name, kept if isinstance(kept, bool) else False)
        name = job.param(command, other)
        if name is not None or not job.has(attribute):
            if not name or name == NULL_FILE:
                name, transfer, stream = NULL_FILE, False, False
            job.put(attribute, name)
        if transfer:
            job.put(stream_name, stream)
            if must_set:
                job.put(transfer_name, True)
        else:
            job.put(transfer_name, False)


def tool_daemon(job: JobDraft) -> None:
    """A program that is started before the job."""
    command = job.param("tool_daemon_cmd", "ToolDaemonCmd")
    if command is None:
        return
    job.put("ToolDaemonCmd", command)
    for name, attribute in (
        ("tool_daemon_input", "ToolDaemonInput"),
        ("tool_daemon_output", "ToolDaemonOutput"),
        ("tool_daemon_error", "ToolDaemonError"),
    ):
        said = job.param(name, attribute)
        if said:
            job.put(attribute, said)
    if job.param("suspend_job_at_exec", "SuspendJobAtExec") is not None:
        job.put("SuspendJobAtExec", job.flag("suspend_job_at_exec", "SuspendJobAtExec", False))
    plain, older = job.param("tool_daemon_arguments", "ToolDaemonArgs"), job.param("tool_daemon_args")
    if plain and older:
        raise job.error("you specified both tdp_daemon_args and tdp_daemon_arguments", "tool_daemon_args")
    old, new = plain or older, job.param("tool_daemon_arguments2")
    if old and new and not job.flag("allow_arguments_v1", "", False):
        raise job.error(_BOTH.format("tool_daemon_arguments", "allow_arguments_v1"), "tool_daemon_arguments2")
    if old or new:
        name, value = _argument_text(job, old, new, "tool_daemon_arguments", "ToolDaemonArgs", "ToolDaemonArguments")
        if value:
            job.put(name, value)
