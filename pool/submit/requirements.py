"""Requirements: what the user wants, completed with what every job of its kind needs.

Clauses are added for platform, disk, memory, cpus, custom resources and file transfer, each only where the user's own
part does not read that attribute of the machine yet (HTCondor's manual page submitting-a-job, "About requirements and
rank"). APPEND_REQUIREMENTS of the configuration goes in before them.
"""

from __future__ import annotations

import re

from pool.base.errors import ClassAdError
from pool.base.url import is_url, scheme_of
from pool.base.words import SPACE
from pool.classad import ClassAd, expr, quote
from pool.execute import criu
from pool.execute.criu import wants_criu
from pool.execute.remote_io import ABILITY, wants_remote_io
from pool.jobs.vocabulary.universes import Universe
from pool.macros.functions import as_int
from pool.submit import virtual_machines
from pool.submit.checkpoints import ON_THE_SAME_KIND
from pool.submit.job import JobDraft, is_undefined, literal_number, split_commas
from pool.submit.policy import deferral_cause
from pool.submit.program import image_kind

_OPSYS = frozenset(("opsys", "opsysandver", "opsyslongname", "opsysshortname", "opsysname", "opsyslegacy"))
_TRANSFERRING = frozenset((Universe.VANILLA, Universe.JAVA, Universe.PARALLEL, Universe.VM))
_APPENDED = {Universe.VANILLA.value: "APPEND_REQ_VANILLA", Universe.VM.value: "APPEND_REQ_VM"}
_NEWER = 'versioncmp( split(TARGET.CondorVersion)[1], "8.9.7" ) >= 0'


class _Clauses:
    """The expression as it grows, and which attributes of the machine the user's part reads already."""

    def __init__(self, text: str, mine: set[str], theirs: set[str]) -> None:
        self.text = text
        self.mine = mine
        self.theirs = theirs

    def add(self, clause: str) -> None:
        self.text = f"{self.text} && {clause}" if self.text else clause

    def reads(self, name: str) -> bool:
        return name.lower() in self.theirs


def requirements(job: JobDraft) -> None:
    """Requirements, unless +Requirements gives them whole."""
    said = job.param("requirements")
    if job.param("MY.Requirements") is not None:
        if said is not None:
            job.warn(
                "Use of MY.Requirements or +Requirements  overrides requirements. "
                "You should remove one of these statements from your submit file."
            )
        return
    text = f"({said})" if said is not None else ""
    own = _APPENDED.get(job.universe)
    append = (job.around.config[own] if own is not None else None) or job.around.config["APPEND_REQUIREMENTS"]
    if append:
        text = f"{text} && ({append})" if text else f"({append})"
    clauses = _Clauses(text, *_references(job, text))
    if "requirements" in clauses.mine | clauses.theirs:
        message = f"Requirements = {text}\nIs Circular. Did you intend to use $(Requirements) ?"
        raise job.error(message, "requirements")
    _platform(job, clauses)
    _disk(job, clauses)
    _memory(job, clauses)
    if not clauses.reads("Cpus") and _wants_more_than(job, "RequestCpus", 1):
        clauses.add("(TARGET.Cpus >= RequestCpus)")
    _custom(job, clauses)
    if job.has("ToolDaemonCmd") and not clauses.reads("HasTDP"):
        clauses.add("TARGET.HasTDP")
    if job.is_true("EncryptExecuteDirectory") and not clauses.reads("EncryptExecuteDirectory"):
        clauses.add("TARGET.HasEncryptExecuteDirectory")
    if job.universe == Universe.PARALLEL and not clauses.reads("DedicatedScheduler"):
        clauses.add("(TARGET.DedicatedScheduler == MY.Scheduler)")
    if job.universe in _TRANSFERRING:
        _files(job, clauses)
    _clock(job, clauses)
    _checkpoints(job, clauses)
    _cuda(job, clauses)
    job.put_expr("Requirements", clauses.text, "requirements")


def _checkpoints(job: JobDraft, clauses: _Clauses) -> None:
    if job.is_true("WantFTOnCheckpoint") and not clauses.reads("HasSelfCheckpointTransfers"):
        clauses.add("TARGET.HasSelfCheckpointTransfers")
    if wants_criu(job.ad):
        if not clauses.reads(criu.ABILITY):
            clauses.add(f"TARGET.{criu.ABILITY}")
        if not clauses.reads(criu.PLATFORM):
            clauses.add(ON_THE_SAME_KIND)


def _references(job: JobDraft, text: str) -> tuple[set[str], set[str]]:
    """The attributes of the job and of the machine that the text reads, in lower case."""
    if not text:
        return set(), set()
    # Names that HTCondor's submit takes for the job's own, though this ad may lack them yet.
    probe = ClassAd({"RequestMemory": 0, "VM_CkptMac": "", "Requirements": True})
    try:
        mine, theirs = expr(text, old=True).references(probe)
    except ClassAdError:
        job.warn(f"Could not get attribute references from Requirements: {text}")
        return set(), set()
    return {_bare(name) for name in mine}, {_bare(name) for name in theirs}


def _bare(name: str) -> str:
    return name.lower().partition(".")[2] if name.lower().startswith(("my.", "target.")) else name.lower()


def _wants_more_than(job: JobDraft, name: str, number: float) -> bool:
    if not job.has(name):
        return False
    value = literal_number(job, name)
    return value is None or value > number


def _platform(job: JobDraft, clauses: _Clauses) -> None:
    if job.universe == Universe.JAVA:
        clauses.add("TARGET.HasJava")
        return
    if not clauses.reads("Arch"):
        clauses.add(f"(TARGET.Arch == {quote(job.scope.defaults['arch'])})")
    if job.universe == Universe.VM:
        for name, clause in virtual_machines.clauses(job.ad):
            if not clauses.reads(name):
                clauses.add(clause)
    elif job.is_docker:
        clauses.add("TARGET.HasDocker")
        network = job.text("DockerNetworkType")
        if network and network not in ("host", "none", "nat"):
            clauses.add("StringListMember(My.DockerNetworkType, TARGET.DockerNetworks)")
    elif job.is_container:
        clauses.add("TARGET.HasContainer")
        image = job.text("ContainerImage")
        if job.has("DockerImage"):
            clauses.add("TARGET.HasDockerURL")
        elif image is not None:
            kinds = {"docker": "HasDockerURL", "sif": "HasSIF", "sandbox": "HasSandboxImage"}
            clauses.add("TARGET." + kinds[image_kind(image)])
    elif not _OPSYS & clauses.theirs:
        clauses.add(f"(TARGET.OpSys == {quote(job.scope.defaults['opsys'])})")


def _disk(job: JobDraft, clauses: _Clauses) -> None:
    if clauses.reads("Disk"):
        if job.has("RequestDisk"):
            clauses.add("(TARGET.Disk >= RequestDisk)")
        _obsolete(job, "Disk", "Your", "request_disk")
    elif not job.has("RequestDisk"):
        clauses.add(f"(TARGET.{'TotalDisk' if job.universe == Universe.VM else 'Disk'} >= DiskUsage)")
    elif _wants_more_than(job, "RequestDisk", 0):
        if job.universe == Universe.VANILLA:
            # To the letter what HTCondor 25.14's submit writes, for those who compare the two.
            clauses.add('(versionGE(split(TARGET.CondorVersion)[1], "25.12.0") || (TARGET.Disk >= RequestDisk))')
        else:
            clauses.add("(TARGET.Disk >= RequestDisk)")


def _memory(job: JobDraft, clauses: _Clauses) -> None:
    if _wants_more_than(job, "RequestMemory", 1):
        clauses.add("(TARGET.Memory >= RequestMemory)")
    if clauses.reads("Memory"):
        _obsolete(job, "Memory", "your", "request_memory")


def _obsolete(job: JobDraft, name: str, your: str, command: str) -> None:
    job.warn(
        f"{your} Requirements expression refers to TARGET.{name}. This is obsolete. "
        f"Set {command} and condor_submit will modify the Requirements expression as needed."
    )


def _custom(job: JobDraft, clauses: _Clauses) -> None:
    """A clause for each request that is for neither cpus, memory nor disk."""
    names = sorted((name for name in job.ad if name.lower().startswith("request")), key=str.lower)
    if not job.around.config.bool("SUBMIT_GENERATE_CUSTOM_RESOURCE_REQUIREMENTS", True):
        names = [name for name in names if name.lower() == "requestgpus"]
    for name in names:
        tag = name[7:]
        if len(tag) < 2 or tag[0] == "_" or tag.lower() in ("cpus", "disk", "memory") or clauses.reads(tag):
            continue
        value = job.ad.eval(name)
        if isinstance(value, str):
            if value:
                clauses.add(f"regexp({name}, TARGET.{tag})")
        elif isinstance(value, bool) or not (isinstance(value, (int, float)) or is_undefined(value)):
            continue
        elif is_undefined(value) or float(value) > 0:  # type: ignore[arg-type]
            if job.has("Require" + tag):
                clauses.add(f"(countMatches(MY.Require{tag},TARGET.Available{tag}) >= {name})")
            else:
                clauses.add(f"(TARGET.{tag} >= {name})")


_PER_FILE = ("EncryptInputFiles", "EncryptOutputFiles", "DontEncryptInputFiles", "DontEncryptOutputFiles")


def _files(job: JobDraft, clauses: _Clauses) -> None:
    """Either the machine sees the same files, or it can transfer them."""
    should = job.text("ShouldTransferFiles") or "IF_NEEDED"
    domain = "(TARGET.FileSystemDomain == MY.FileSystemDomain)"
    knows_domain = clauses.reads("FileSystemDomain")
    if wants_remote_io(job.ad):
        if not clauses.reads(ABILITY):
            clauses.add(f"TARGET.{ABILITY}")
        return
    if should == "NO":
        if not knows_domain:
            clauses.add(domain)
        return
    if clauses.reads("HasFileTransfer") or clauses.reads("HasJobTransferPlugins"):
        return
    plugins = job.text("TransferPlugins")
    parts = ["TARGET.HasJobTransferPlugins" if plugins else "TARGET.HasFileTransfer"]
    if not clauses.reads("HasPerFileEncryption") and any(job.has(name) for name in _PER_FILE):
        parts.append("TARGET.HasPerFileEncryption")
    if (
        job.text("TransferCheckpoint") is not None
        or job.is_true("PreserveRelativePaths")
        or job.text("WhenToTransferOutput") == "ON_SUCCESS"
    ):
        parts.append(_NEWER)
    methods = _url_methods(job, plugins or "")
    if not clauses.reads("HasFileTransferPluginMethods"):
        parts.extend(f'stringListIMember("{method}",TARGET.HasFileTransferPluginMethods)' for method in methods)
        _check_credentials(job, methods)
    if methods:
        job.put("WantTransferPluginMethods", ",".join(methods))
    ability = " && ".join(parts)
    if should == "IF_NEEDED" and not knows_domain:
        clauses.add(f"({domain} || ({ability}))")
    else:
        clauses.add(f"({ability})")


def _url_methods(job: JobDraft, plugins: str) -> list[str]:
    """The URL schemes that the job needs and does not bring a plugin for."""
    brought = {
        method.strip(SPACE).lower()
        for plugin in plugins.split(";")
        for method in plugin.partition("=")[0].split(",")
        if "=" in plugin
    }
    urls = [name for name in split_commas(job.text("TransferInput") or "") if is_url(name)]
    destination = job.text("OutputDestination")
    if destination is not None:
        if is_url(destination):
            urls.append(destination)
        else:
            job.warn("output_destination must be a URL, did you mean output_directory ?")
    for remap in (job.text("TransferOutputRemaps") or "").split(";"):
        target = remap.partition("=")[2].strip(SPACE)
        if is_url(target):
            urls.append(target)
    spelt: dict[str, str] = {}
    for url in urls:
        spelt.setdefault(scheme_of(url).lower(), scheme_of(url))
    return [spelt[method] for method in sorted(spelt) if method not in brought]


def _check_credentials(job: JobDraft, methods: list[str]) -> None:
    if not {"s3", "gs"} & {method.lower() for method in methods} or not job.around.config.bool("SIGN_S3_URLS", True):
        return
    for attribute, command in (
        ("EC2AccessKeyId", "access_key_id_file"),
        ("EC2SecretAccessKey", "secret_access_key_file"),
    ):
        if not job.has(attribute):
            message = f"[s3|gs]:// URLs require [s3|aws|gs]_{command} to be set."
            raise job.error(message, "transfer_input_files", "output_destination")


def _clock(job: JobDraft, clauses: _Clauses) -> None:
    if deferral_cause(job) is None:
        return
    if job.universe != Universe.LOCAL:
        clauses.add("TARGET.HasJobDeferral")
    if not job.has("ScheddInterval"):
        job.put("ScheddInterval", int(job.around.config.seconds("SCHEDD_INTERVAL", 300)))
    clauses.add(
        "(((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && "
        "(time() < (DeferralTime + DeferralWindow)))"
    )


def _cuda(job: JobDraft, clauses: _Clauses) -> None:
    said = job.text("CUDAVersion")
    if said is None:
        return
    found = re.match(r"(\d+)(?:\.(\d+))?\Z", said)
    if found is None:
        message = "cuda_version must be of the form 'x' or 'x.y', where x and y are positive integers."
        raise job.error(message, "cuda_version")
    major = as_int(found[1]) or 0
    version = major * 1000 + int(found[2]) % 100 if found[2] is not None else major * 1000 if major < 1000 else major
    job.put("CUDAVersion", version)
    clauses.add("CUDAVersion <= TARGET.CUDAMaxSupportedVersion")
