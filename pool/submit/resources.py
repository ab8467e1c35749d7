"""Steps about what the job needs: request_*, retries with more memory, GPUs, sizes.

The commands are those of HTCondor's manual page condor_submit. Sizes take a unit; without one memory is in MiB and disk
in KiB. What the description leaves out, JOB_DEFAULT_REQUEST* of the configuration says. A list of sizes, or
`retry_request_memory`, becomes a transform that is applied when the job has run out of what it had.
"""

from __future__ import annotations

import re

from pool.base.errors import ClassAdError, SubmitError
from pool.base.nearest import nearest_name
from pool.base.units import requested_amount
from pool.base.words import SPACE, split_list
from pool.classad import ClassAd, Expr, expr
from pool.jobs.vocabulary.universes import Universe
from pool.macros.functions import as_int
from pool.submit.job import JobDraft, as_bool
from pool.submit.policy import literal, wrapped

_ARITHMETIC = r"[-+*/().\d\s]*\Z"
_MIB, _KIB = 1 << 20, 1 << 10
_SLIPS = {"request_cpu": "request_cpus", "request_gpu": "request_gpus"}
_REFUSED = frozenset(("request_gpu_memory", "request_gpus_memory"))
_SEPARATOR = "\x1e"


def requests(job: JobDraft) -> None:
    """RequestCpus, RequestMemory, RequestDisk, RequestGPUs and requests for custom resources."""
    said = [macro.name for macro in job.scope.macros if macro.name.lower().startswith("request_")]
    for name in said:
        lower = name.lower()
        if lower in _SLIPS:
            job.warn(f"{name} is not a valid submit keyword, did you mean {_SLIPS[lower]}?")
        elif lower not in _REFUSED and lower not in _OWN and len(name) > 9 and name[8] != "_":
            text = job.param(name)
            near = nearest_name(name[8:], _BUILT_IN)
            hint = f"{name} asks for a custom resource '{name[8:]}'. Did you mean 'request_{near}'?"
            if near is not None:
                place = job.scope.span(name)
                job.warn(f"{place}: {hint}" if place is not None else hint)
            if text is not None:
                _custom(job, name, text, hint if near is not None else "")

    cpus(job)
    gpus(job)
    disk(job)
    memory(job)


def _custom(job: JobDraft, name: str, text: str, hint: str) -> None:
    try:
        job.put_expr("Request" + name[8:], text, name)
    except SubmitError as error:
        error.message += f"; {hint}" if hint else ""
        raise


def machines(job: JobDraft) -> None:
    """How many nodes a proc of a parallel job has: MinHosts and MaxHosts, which are one number."""
    if job.universe != Universe.PARALLEL:
        return
    spellings = ("machine_count", "node_count", "nodecount", "MaxHosts")
    text = next((said for name in spellings if (said := job.param(name)) is not None), None)
    if text is None:
        raise job.error("No machine_count specified!", "universe")
    count = as_int(text)
    if count is None or count < 1:
        raise job.error(f"machine_count={text} is invalid, must eval to a positive integer.", *spellings)
    for name in ("MinHosts", "MaxHosts", "OrigMaxHosts"):
        job.put(name, count)
    if job.is_docker or job.is_container:
        raise job.error("A parallel job cannot run in a container here.", "container_image", "docker_image")


def no_negative_requests(job: JobDraft) -> None:
    """A job cannot ask for less than nothing: no slot would ever take it."""
    wrong = []
    # Arithmetic alone is computed: what an expression of attributes comes to is known only beside a slot.
    for key, value in job.ad.attrs.items():
        if key.startswith("request"):
            number = value.eval() if isinstance(value, Expr) and re.match(_ARITHMETIC, value.text) else value
            if isinstance(number, int | float) and number < 0:
                command = f"request_{key[7:]}"
                said = f"{command} = {number} asks for less than nothing, and no slot can give that"
                wrong.append(job.error(said, command, key, f"MY.{key}"))
    if wrong:
        raise wrong[0].with_others(wrong[1:])


_BUILT_IN = ("cpus", "memory", "disk", "gpus")
_OWN = frozenset(("request_cpus", "request_gpus", "request_disk", "request_memory"))


def _default(job: JobDraft, attribute: str, knob: str) -> str | None:
    """What the configuration says where the description says nothing; for the cluster ad alone."""
    return job.knob(knob) if job.is_first and not job.has(attribute) else None


def cpus(job: JobDraft) -> None:
    text = job.param("request_cpus", "RequestCpus") or _default(job, "RequestCpus", "JOB_DEFAULT_REQUESTCPUS")
    if text is not None and text.lower() != "undefined":
        job.put_expr("RequestCpus", text, "request_cpus")


def memory(job: JobDraft) -> None:
    if not _sized(job, "RequestMemory", "request_memory", "JOB_DEFAULT_REQUESTMEMORY", _MIB, "megabytes"):
        return
    sequence = job.param("retry_request_memory")
    most, more = job.param("retry_request_memory_max"), job.param("retry_request_memory_increase")
    if sequence:
        if more:
            job.warn("retry_request_memory_increase will be ignored because retry_request_memory was used")
        _sequence(job, "RequestMemory", "retry_request_memory", _MIB, sequence)
    elif most or more:
        _sequence(job, "RequestMemory", "retry_request_memory_max", _MIB, most, more)


def disk(job: JobDraft) -> None:
    if not _sized(job, "RequestDisk", "request_disk", "JOB_DEFAULT_REQUESTDISK", _KIB, "kilobytes"):
        return
    sequence = job.param("retry_request_disk")
    if sequence:
        _sequence(job, "RequestDisk", "request_disk", _KIB, sequence)


def _sized(job: JobDraft, attribute: str, command: str, knob: str, unit: int, unit_name: str) -> bool:
    """A request that is an amount, an expression or a list of amounts; whether other commands may make it grow."""
    text = job.param(command, attribute) or _default(job, attribute, knob)
    if text is None:
        return False
    found = requested_amount(text, unit)
    if found is None:
        if text.lower() != "undefined":
            job.put_expr(attribute, text, command)
        return False
    number, has_unit, rest = found
    _check_unit(job, has_unit, f"{command}={text} defaults to {unit_name}, ", command)
    job.put(attribute, number)
    if rest.startswith(",") and rest[1:].strip(SPACE):
        _sequence(job, attribute, command, unit, rest[1:].strip(SPACE))
        return False
    return True


def _check_unit(job: JobDraft, has_unit: bool, said: str, *names: str) -> None:
    rule = job.around.config.str("SUBMIT_REQUEST_MISSING_UNITS", "")
    if has_unit or not rule:
        return
    if rule.lower() == "error":
        raise job.error(f"{said}but must contain a units suffix (i.e K, M, G or T)", *names)
    job.warn(f"{said}but should contain a units suffix (i.e K, M, G or T)")


def _sequence(
    job: JobDraft, attribute: str, command: str, unit: int, line: str | None, more: str | None = None
) -> None:
    """How a request grows after the job ran out of it, as a transform that is made at eviction."""
    numbers, last = _numbers(job, command, unit, line) if line else ([], None)
    for before, after in zip([0, *numbers], numbers, strict=False):
        if after <= before:
            message = f"{command} must have an increasing sequence of values, but {after} is not greater than {before}"
            raise job.error(message, command)
    final: object = last
    if last is None and numbers:
        final = numbers.pop()
    if final is None and more is None:
        return
    if numbers:
        body = _stepwise(job, attribute, numbers, final)
    elif more is not None:
        body = _increase(job, attribute, unit, more, final)
    else:
        body = f"{'EVALSET' if last is not None else 'SET'} {attribute} {literal(final)}"
    _put_transform(job, attribute, body)


def _numbers(job: JobDraft, command: str, unit: int, line: str) -> tuple[list[int], object]:
    """Numbers between commas, and what stands at the end if that is an expression."""
    numbers: list[int] = []
    rest = line.strip(SPACE)
    while rest:
        found = requested_amount(rest, unit)
        if found is None:
            try:
                return numbers, expr(rest, old=True)
            except ClassAdError:
                message = f"{command}={rest} is invalid. must be an expression or number"
                raise job.error(message, command) from None
        number, has_unit, rest = found
        _check_unit(job, has_unit, f"{command}={line} ", command)
        numbers.append(number)
        rest = rest.strip(SPACE).removeprefix(",").strip(SPACE)
    return numbers, None


def _stepwise(job: JobDraft, attribute: str, numbers: list[int], final: object) -> str:
    retry = "Retry" + attribute
    steps = ",".join([*map(str, numbers), literal(final)])
    job.put_expr(retry, "{" + steps + "}")
    index = retry + "Index"
    return (
        f"EVALSET {attribute} {retry}[{index}?:0]{_SEPARATOR}EVALSET {index} MIN({{size({retry})-1, ({index}?:0)+1}})"
    )


def _increase(job: JobDraft, attribute: str, unit: int, more: str, final: object) -> str:
    complaint = f"{attribute} retry increment must be a positive number or an expression that references {attribute}"
    found = requested_amount(more, unit)
    if found is not None:
        if found[0] <= 0:
            raise job.error(complaint, "retry_request_memory_increase")
        growing = f"{attribute} + {found[0]}"
    else:
        growing = more
        try:
            mine, theirs = expr(more, old=True).references(ClassAd({attribute: 0}))
        except ClassAdError:
            raise job.error(complaint, "retry_request_memory_increase") from None
        if attribute.lower() not in {name.lower().rpartition(".")[2] for name in (*mine, *theirs)}:
            raise job.error(complaint, "retry_request_memory_increase")
    if final is not None:
        job.put("Max" + attribute, final)
        job.put_expr("Next" + attribute, growing)
        return f"EVALSET {attribute} MIN({{Next{attribute}, Max{attribute}}})"
    probe = ClassAd({attribute: job.ad.get(attribute)})
    probe["Increment"] = expr(growing, old=True)
    value = probe.eval("Increment")
    if not isinstance(value, int):
        message = f"{attribute} retry increment ({more}) must evaluate to an integer at submit time"
        raise job.error(message, "retry_request_memory_increase")
    return f"SET {attribute} {value}"


_EVICTED_FOR = {"RequestMemory": 102, "RequestDisk": 104}


def _put_transform(job: JobDraft, attribute: str, body: str) -> None:
    required = job.knob(f"ON_EVICT_CHECK_{attribute}_REQUIREMENTS")
    code = _EVICTED_FOR[attribute]
    required = required or f"(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == {code}"
    if job.is_first:
        job.put("TransformBody_" + attribute, f"REQUIREMENTS {required}{_SEPARATOR}{body}")
    names = (job.text("TransformOnEvict") or "").split()
    if attribute not in names:
        job.put("TransformOnEvict", " ".join([*names, attribute]))


def gpus(job: JobDraft) -> None:
    text = job.param("request_gpus", "RequestGPUs") or _default(job, "RequestGPUs", "JOB_DEFAULT_REQUESTGPUS")
    if text is not None and text.lower() != "undefined":
        job.put_expr("RequestGPUs", text, "request_gpus")
    if not job.has("RequestGPUs"):
        return
    for command, attribute in (
        ("require_gpus", "RequireGPUs"),
        ("gpus_minimum_capability", "GPUsMinCapability"),
        ("gpus_maximum_capability", "GPUsMaxCapability"),
    ):
        said = job.param(command, attribute)
        if said is not None:
            job.put_expr(attribute, said, command)
    _gpu_memory(job)
    _gpu_runtime(job)


def _gpu_memory(job: JobDraft) -> None:
    said = job.param("gpus_minimum_memory", "GPUsMinMemory")
    if said is None:
        if job.param("request_gpu_memory", "request_gpus_memory"):
            job.warn("request_gpu_memory is not a submit command, did you mean gpus_minimum_memory?")
        return
    found = requested_amount(said, _MIB)
    if found is None or found[2].strip(SPACE):
        job.put_expr("GPUsMinMemory", said, "gpus_minimum_memory")
    else:
        _check_unit(job, found[1], f"gpus_minimum_memory={said} defaults to megabytes, ", "gpus_minimum_memory")
        job.put("GPUsMinMemory", found[0])


def _gpu_runtime(job: JobDraft) -> None:
    said = job.param("gpus_minimum_runtime", "GPUsMinRuntime")
    if said is None:
        return
    found = re.match(r"(\d+)(?:\.(\d{1,2}))?\Z", said.strip(SPACE))
    if found is None:
        job.put_expr("GPUsMinRuntime", said, "gpus_minimum_runtime")
    elif found[2] is None and int(found[1]) > 1000:
        job.put("GPUsMinRuntime", int(found[1]))
    else:
        job.put("GPUsMinRuntime", int(found[1]) * 1000 + int(found[2] or 0) * 10)


_PROPERTIES = (
    ("GPUsMinCapability", "Capability", ">="),
    ("GPUsMaxCapability", "Capability", "<="),
    ("GPUsMinMemory", "GlobalMemoryMb", ">="),
    ("GPUsMinRuntime", "MaxSupportedVersion", ">="),
)


def gpu_requirements(job: JobDraft) -> None:
    """RequireGPUs completed with the properties that were asked for by commands of their own."""
    if not job.has("RequestGPUs"):
        return
    required = job.ad.get("RequireGPUs")
    known: set[str] = set()
    if isinstance(required, Expr):
        probe = ClassAd(
            {"Capability": 7.5, "GlobalMemoryMb": 11012, "DriverVersion": 12.1, "MaxSupportedVersion": 12010}
        )
        known = {name.lower() for name in required.references(probe)[0]}
    clauses = [
        f"{property_} {operator} {attribute}"
        for attribute, property_, operator in _PROPERTIES
        if job.has(attribute) and property_.lower() not in known
    ]
    if not clauses:
        return
    text = " && ".join(clauses)
    if required is not None:
        text = wrapped(literal(required), "&&", job, "require_gpus") + " && " + text
    job.put_expr("RequireGPUs", text, "require_gpus")


def image_size(job: JobDraft) -> None:
    """ExecutableSize and ImageSize, in KiB; of a virtual machine it is the disk that its memory may take."""
    if job.is_first and job.universe != Universe.VM:
        command = job.text("Cmd") or ""
        job.put("ExecutableSize", job.size_kb(command) if command else 0)
    said = job.param("image_size", "ImageSize")
    if said is not None:
        found = requested_amount(said, _KIB)
        if found is None or found[0] < 1:
            raise job.error(f"'{said}' is not valid for Image Size", "image_size")
        job.put("ImageSize", found[0])
    elif not job.has("ImageSize"):
        size = job.ad.get("ExecutableSize")
        job.put("ImageSize", size if isinstance(size, int) else 0)


def service_ports(job: JobDraft) -> None:
    """The ports of a container's services."""
    if not (job.is_docker or job.is_container):
        return
    names = job.param("container_service_names", "ContainerServiceNames")
    if not names:
        return
    job.put("ContainerServiceNames", names)
    for service in split_list(names):
        port = job.number(service + "_container_port")
        if port is None or not 0 <= port <= 65535:
            raise job.error(
                f"Requested container service '{service}' was not assigned a port, or the assigned port was not valid.",
                "container_service_names",
            )
        job.put(service + "_ContainerPort", port)


def oauth(job: JobDraft) -> None:
    """OAuthServicesNeeded: services, each perhaps with handles."""
    said = job.param("use_oauth_services", "UseOAuthServices")
    if not said or said.strip(SPACE).lower() == "false":
        return
    needed: set[str] = set()
    for service in split_list(said):
        prefix = f"{service.lower()}_oauth_permissions_"
        handles = [m.name[len(prefix) :] for m in job.scope.macros if m.name.lower().startswith(prefix)]
        needed.update(f"{service}*{handle}" for handle in handles if handle)
        if not handles:
            needed.add(service)
    job.put("OAuthServicesNeeded", ",".join(sorted(needed, key=str.lower)))


def docker_credentials(job: JobDraft) -> None:
    """What the user's docker keeps must be there when it shall go along."""
    if not job.is_first or not job.is_true("DockerSendCredentials") or job.around.skip_checks:
        return
    home = job.around.environ.get("HOME")
    if not home:
        raise job.error("DOCKER_CONFIG directory is not defined", "docker_send_credentials")
    path = f"{home}/.docker/config.json"
    if job.around.world.size(path) is None:
        raise job.error(f"Cannot locate docker credentials file {path}", "docker_send_credentials")


def credentials(job: JobDraft) -> None:
    """Proxies and tokens that go along."""
    _proxy(job)
    lifetime = job.number("delegate_job_gsi_credentials_lifetime", "DelegateJobGSICredentialsLifetime")
    if lifetime is not None:
        job.put("DelegateJobGSICredentialsLifetime", lifetime)
    _token(job)


def _proxy(job: JobDraft) -> None:
    proxy = job.param("x509userproxy", "X509UserProxy")
    if proxy is None and job.flag("use_x509userproxy", "", False):
        proxy = job.around.environ.get("X509_USER_PROXY")
        if proxy is None:
            raise job.error("use_x509userproxy: X509_USER_PROXY is not set", "use_x509userproxy")
    if proxy:
        path = job.full_path(proxy)
        try:
            readable = "-----BEGIN CERTIFICATE-----" in job.around.world.read_file(path)
        except OSError:
            readable = False
        if not readable and not job.around.skip_checks:
            raise job.error(f"unable to read proxy file {path}", "x509userproxy", "use_x509userproxy")
        job.put("x509userproxy", path)


def _token(job: JobDraft) -> None:
    """`use_scitokens = auto` takes a token only where the submitter has one; true insists on it."""
    token = job.param("scitokens_file", "ScitokensFile")
    wants = job.param("use_scitokens", "use_scitoken")
    use = token is not None
    if wants is not None:
        use = as_bool(wants) or False
        if wants.strip(SPACE).lower() == "auto":
            use = bool(token or job.around.environ.get("BEARER_TOKEN_FILE"))
        elif as_bool(wants) is None:
            message = "use_scitokens error. Value should be true, false, or auto."
            raise job.error(message, "use_scitokens", "use_scitoken")
    if not use:
        return
    token = token or job.around.environ.get("BEARER_TOKEN_FILE")
    if not token:
        raise job.error(
            "No Scitokens filename specified. Expected either scitokens_file command or the BEARER_TOKEN_FILE "
            "environment variable to be set.",
            "use_scitokens",
            "use_scitoken",
        )
    job.put("ScitokensFile", job.full_path(token))


def materialization(job: JobDraft) -> None:
    """JobMaterializeLimit and JobMaterializeMaxIdle, for the cluster ad alone: how the schedd makes the jobs."""
    if not job.is_first:
        return
    job.number("max_idle", "JobMaterializeMaxIdle")  # an expression, but of a number
    limit = job.number("max_materialize", "JobMaterializeLimit")
    if limit is not None:
        job.put("JobMaterializeLimit", limit)
