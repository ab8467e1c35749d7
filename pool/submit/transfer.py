"""The step about files: what is transferred, when, under which names, and how much it is.

The commands and their defaults are those of HTCondor's manual pages condor_submit and submitting-a-job, "Submitting
jobs without a shared file system". Names are kept as they were written, relative to `initialdir`; the sizes of what
exists here are summed for the machine's disk.
"""

from __future__ import annotations

import re

from pool.base.units import requested_amount
from pool.base.words import SPACE
from pool.execute.criu import wants_criu
from pool.execute.remote_io import wants_remote_io
from pool.jobs.vocabulary.universes import Universe
from pool.submit import virtual_machines
from pool.submit.checkpoints import check_criu, check_word
from pool.submit.job import JobDraft, split_commas, strip_quotes

_SHOULD = {"yes": "YES", "no": "NO", "if_needed": "IF_NEEDED", "true": "YES", "false": "NO", "auto": "IF_NEEDED"}
_SHOULD.update(always="YES", never="NO")
_WHEN = {"on_exit": "ON_EXIT", "on_exit_or_evict": "ON_EXIT_OR_EVICT", "on_success": "ON_SUCCESS"}
_WHEN.update(
    always="ON_EXIT_OR_EVICT",
    never="ON_EXIT",
    no="ON_EXIT",
    false="ON_EXIT",
    yes="ON_EXIT_OR_EVICT",
    true="ON_EXIT_OR_EVICT",
)
STDOUT_NAME, STDERR_NAME = "_condor_stdout", "_condor_stderr"


def transfer(job: JobDraft) -> None:
    """ShouldTransferFiles, WhenToTransferOutput, the lists of files, DiskUsage and TransferInputSizeMB."""
    inputs, has_inputs, size = _inputs(job)
    outputs = virtual_machines.outputs(job, _outputs(job))
    should = _policy(job, has_inputs, outputs is not None)
    if should != "YES" and not job.has("FileSystemDomain"):
        domain = job.knob("FILESYSTEM_DOMAIN")
        if domain:
            job.put("FileSystemDomain", domain)
    if should != "NO":
        size += _tool_files(job, inputs)
        if job.universe == Universe.JAVA:
            size += _java_files(job, inputs)
            has_inputs = has_inputs or bool(inputs)
    _sizes(job, size)
    remaps = _spooled_names(job) if job.around.remote else []
    if should != "NO":
        if has_inputs:
            job.put("TransferInput", ",".join(inputs))
        public = job.param("public_input_files", "PublicInputFiles")
        if public:
            job.put("PublicInputFiles", ",".join(split_commas(public)))
        if outputs is not None:
            job.put("TransferOutput", ",".join(outputs))
    elif job.universe != Universe.JAVA and job.flag("transfer_executable", "TransferExecutable", False):
        raise job.error(
            "You explicitly requested that the executable be transfered, but for this to work, you must enable "
            'file transfer: define either "when_to_transfer_output = ON_EXIT" or '
            '"when_to_transfer_output = ON_EXIT_OR_EVICT"',
            "transfer_executable",
        )
    said = job.param("transfer_output_remaps", "TransferOutputRemaps")
    if said is not None:
        remaps.append(strip_quotes(said))
    if remaps and any(remaps):
        job.put("TransferOutputRemaps", ";".join(remaps))


def _inputs(job: JobDraft) -> tuple[list[str], bool, int]:
    said = job.param("transfer_input_files", "TransferInputFiles")
    inputs = split_commas(strip_quotes(said)) if said else []
    if job.is_first:
        common = job.param("transfer_common_input", "CommonInputFiles")
        if common:
            job.put("CommonInputFiles", ",".join(split_commas(strip_quotes(common))))
    size = sum(job.size_kb(name) for name in inputs)
    has_inputs = bool(inputs)
    if job.is_container:
        image = _container_source(job)
        if image is not None:
            inputs.append(image)
            size += job.size_kb(image)
            has_inputs = True
    if job.ad.get("TransferIn") is not False:
        name = job.text("In")
        if name:
            size += job.size_kb(name)
    return inputs, has_inputs, size


def _container_source(job: JobDraft) -> str | None:
    """The image when it is transferred like an input file; ContainerImage then keeps its last part only."""
    if job.ad.get("TransferContainer") is False:
        job.put("ContainerImageSource", "local")
        return None
    said = job.param("container_image", "ContainerImage")
    if said is None:
        return job.text("ContainerImageFullPath")
    shared = split_commas(job.around.config.str("CONTAINER_SHARED_FS", ""))
    if any(said.startswith(base) for base in shared):
        job.put("ContainerImageSource", "local")
        return None
    for scheme in ("docker", "oras"):
        if said.startswith(scheme + "://"):
            job.put("ContainerImageSource", scheme)
            return None
    # A directory with a slash at its end sends what is in it; the image is the directory itself.
    short = said.rstrip("/") if said.endswith("/") else said
    job.put("ContainerImage", short.rpartition("/")[2])
    job.put("ContainerImageFullPath", said)
    job.put("ContainerImageSource", short.partition(":")[0] if ":" in short else "cedar")
    return said


def _outputs(job: JobDraft) -> list[str] | None:
    said = job.param("transfer_output_files", "TransferOutputFiles")
    return None if said is None else split_commas(strip_quotes(said))


def _policy(job: JobDraft, has_inputs: bool, has_outputs: bool) -> str:
    """Settle ShouldTransferFiles and WhenToTransferOutput; answers the former."""
    should, by_default = _should(job)
    if should == "NO" and (has_inputs or has_outputs):
        lists = [
            name for name, has in (("transfer_input_files", has_inputs), ("transfer_output_files", has_outputs)) if has
        ]
        what = '" and "'.join(lists)
        raise job.error(
            f'you specified files you want Condor to transfer via "{what}", but you disabled should_transfer_files.',
            "should_transfer_files",
            "ShouldTransferFiles",
        )
    said = job.param("WhenToTransferOutput", "when_to_transfer_output") or job.text("WhenToTransferOutput")
    said = virtual_machines.when(job, said)
    when = _WHEN.get(said.strip(SPACE).lower()) if said else "ON_EXIT"
    if when is None:
        raise job.error(
            f"invalid value ({said}) for WhenToTransferOutput.  Please either specify ON_EXIT, or ON_EXIT_OR_EVICT "
            "and try again.",
            "when_to_transfer_output",
        )
    if should == "NO" and not by_default and said is None:
        when = "NEVER"
    if (should == "NO") is not (when == "NEVER"):
        raise job.error(
            f"WhenToTransferOutput specified as {said or when} yet ShouldTransferFiles defined as {should}.  "
            "Please remove this contradiction from your submit file and try again.",
            "when_to_transfer_output",
            "should_transfer_files",
        )
    if when == "ON_EXIT_OR_EVICT" and should == "IF_NEEDED":
        if not by_default:
            raise job.error(
                '"when_to_transfer_output = ON_EXIT_OR_EVICT" and "should_transfer_files = IF_NEEDED" are incompatible',
                "when_to_transfer_output",
            )
        should = "YES"
    job.put("ShouldTransferFiles", should)
    if should != "NO":
        job.put("WhenToTransferOutput", when)
    return should


def _check_remote_io(job: JobDraft, said: str | None) -> None:
    """Files that stay where they are do not move, and not every job can have them there."""
    if job.universe not in (Universe.VANILLA, Universe.JAVA, Universe.PARALLEL) or job.is_docker or job.is_container:
        raise job.error("want_remote_io is for jobs of the vanilla, java and parallel universes", "want_remote_io")
    if said is not None and said.strip(SPACE).upper() not in ("NO", "FALSE", "NEVER"):
        raise job.error(
            f"want_remote_io leaves the job's files where they are, but should_transfer_files = {said} moves them.",
            "should_transfer_files",
            "want_remote_io",
        )


def _should(job: JobDraft) -> tuple[str, bool]:
    said = job.param("ShouldTransferFiles", "should_transfer_files") or job.text("ShouldTransferFiles")
    check_word(job)
    if job.universe == Universe.VM:
        virtual_machines.files(job, said)
        return "YES", said is None
    if wants_criu(job.ad):
        check_criu(job, said)
        return "YES", said is None
    if wants_remote_io(job.ad):
        _check_remote_io(job, said)
        return "NO", False
    if said is not None:
        should = _SHOULD.get(said.strip(SPACE).lower())
        if should is None:
            raise job.error(
                f"invalid value ({said}) for ShouldTransferFiles.  Please either specify YES, NO, or IF_NEEDED "
                "and try again.",
                "should_transfer_files",
                "ShouldTransferFiles",
            )
        return should, not job.is_first and job.param("ShouldTransferFiles", "should_transfer_files") is None
    return _SHOULD.get((job.knob("SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES") or "").lower(), "IF_NEEDED"), True


def _tool_files(job: JobDraft, inputs: list[str]) -> int:
    """The tool that starts before the job goes along."""
    size = 0
    for name in ("ToolDaemonCmd", "ToolDaemonInput"):
        path = job.text(name)
        if path and path not in inputs:
            inputs.append(path)
            size += job.size_kb(path)
    return size


def _java_files(job: JobDraft, inputs: list[str]) -> int:
    """The class file and the jar files go along as input; what is started is java."""
    size = 0
    command = job.text("Cmd")
    if command and command != "java" and command not in inputs:
        inputs.append(command)
        size += job.size_kb(command)
    for path in split_commas(job.text("JarFiles") or ""):
        inputs.append(path)
        size += job.size_kb(path)
    job.put("Cmd", "java")
    job.put("TransferExecutable", False)
    return size


def _sizes(job: JobDraft, inputs_kb: int) -> None:
    said = job.param("disk_usage", "DiskUsage")
    if said is not None:
        found = requested_amount(said, 1024)
        if found is None or found[0] < 1:
            raise job.error(f"'{said}' is not valid for disk_usage. It must be >= 1", "disk_usage")
        job.put("DiskUsage", found[0])
        return
    program = job.ad.get("ExecutableSize")
    total = inputs_kb + (program if isinstance(program, int) else 0)
    job.put("TransferInputSizeMB", (total + 1023) // 1024)
    job.put("DiskUsage", total)


def _spooled_names(job: JobDraft) -> list[str]:
    """Spooled output with directories in its name is kept under a safe name, and remapped when it is fetched."""
    remaps: list[str] = []
    output, error = job.text("Out") or "", job.text("Err") or ""
    for attribute, stream, name, safe in (
        ("Out", "StreamOut", output, STDOUT_NAME),
        ("Err", "StreamErr", error, STDOUT_NAME if error == output else STDERR_NAME),
    ):
        if "/" in name and name != "/dev/null" and not job.is_true(stream):
            job.put(attribute, safe)
            remaps.append(f"{safe}={_escaped(name)}")
    return remaps


def _escaped(text: str) -> str:
    return re.sub(r"([;=\\])", r"\\\1", text)
