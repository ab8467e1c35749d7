"""One job in images of docker, podman and Apptainer: what docs/jobs-in-containers.md says of each, row by row.

A row of the page's table is a function here; what it returns, with the engine's own program, is what the page's cell says.
Engines that are not here are left out.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest

from pool.classad import ClassAd, expr
from tests.docs.pages import PAGES
from tests.fakes.registry import registry
from tests.nodes.test_podman import CONFIGURATION
from tests.nodes.thin import thin
from tests.whole.real_pool import RealPool, real_pool

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(600)]

PAGE = PAGES / "jobs-in-containers.md"
HEADING = "## The same in every image"
ENGINES = ("docker", "podman", "Apptainer")
ROOT = Path(__file__).parents[2]
CHIRP = Path(sys.executable).with_name("condor_chirp")
SEEN = ("/usr", str(ROOT), *([sys.prefix] if not Path(sys.prefix).is_relative_to(ROOT) else []))
"""What of the machine is mounted into the image, read-only: programs, and condor_chirp."""
ACCOUNT = "www-data" if os.geteuid() == 0 else None
JOB = """executable = /bin/sh
arguments = "-c '{command}'"
transfer_executable = false
{image}
should_transfer_files = yes
request_memory = 128
output = out
error = err
log = log
{more}
queue
"""


@dataclass
class Place:
    """A pool whose jobs run with one engine, and a directory that is mounted as /shared into their images."""

    pool: RealPool
    engine: str
    image: str
    shared: Path
    registry: str
    asked: list[str]
    """What the registry was asked for."""
    private: str
    """A registry that wants a login."""
    home: Path = field(default_factory=Path)

    def submit(self, command: str, *more: str, image: str = "") -> int:
        """Queue a job that runs this in the image, from a directory of its own."""
        self.home = self.pool.place("home")
        for path in self.shared.iterdir():
            path.unlink()
        text = JOB.format(command=command, image=image or self.image, more="\n".join(more))
        return self.pool.submit(text, cwd=self.home)

    def run(self, command: str, *more: str, image: str = "") -> ClassAd:
        """The same, to its end."""
        cluster = self.submit(command, *more, image=image)
        self.pool.until(lambda: not self.pool.jobs(str(cluster)), "the job's end")
        (ad,) = self.pool.history(str(cluster))
        return ad

    def out(self, command: str, *more: str, image: str = "") -> str:
        """What it prints."""
        self.run(command, *more, image=image)
        return (self.home / "out").read_text().strip()

    def until_file(self, name: str) -> str:
        """Wait until the job has written that file in /shared."""
        path = self.shared / name
        self.pool.until(lambda: path.exists() and path.read_text(), f"the job to write {name}")
        return path.read_text()


def _one(words: str) -> str:
    first, *rest = words.split()
    return first if all(word == first for word in rest) else words


def working_directory(place: Place) -> str:
    words = place.out("pwd; echo $TMPDIR; echo $_CONDOR_SCRATCH_DIR; echo $_CONDOR_JOB_IWD")
    return "the sandbox" if f"{place.pool.directory}/execute/dir_" in _one(words) else words


def target_directory(place: Place) -> str:
    target = "container_target_dir = /work"
    words = place.out("pwd; echo $TMPDIR; echo $_CONDOR_SCRATCH_DIR; dirname $_CONDOR_JOB_AD; ls .job.ad", target)
    assert words.endswith(".job.ad")
    return _one(words.removesuffix(".job.ad"))


def user_and_group(place: Place) -> str:
    words = place.out("id -u; id -g").split()
    account = pwd.getpwuid(os.geteuid()) if ACCOUNT is None else pwd.getpwnam(ACCOUNT)
    return "those of the job's account" if words == [str(account.pw_uid), str(account.pw_gid)] else " ".join(words)


def own_variables(place: Place) -> str:
    return place.out("echo $WORDS", """environment = "WORDS='two words'" """)


def pools_variables(place: Place) -> str:
    more = ("request_cpus = 2", "want_io_proxy = true")
    names = set(place.out("env | cut -d= -f1", *more).split())
    bare = set(place.out("env | cut -d= -f1", *more, image="+None = 1").split())
    missing = sorted(bare - names)
    if all(name.endswith("_CACHEDIR") for name in missing):  # Apptainer keeps what it is told itself
        return "all but those of its cache" if missing else "all that a job without an image has"
    return f"all but {' '.join(missing)}"


def threads(place: Place) -> str:
    return f"threads: {place.out('echo $OMP_NUM_THREADS', 'request_cpus = 2')}"


def gpus(place: Place) -> str:
    job = "request_gpus = 1"
    said = place.out("echo $CUDA_VISIBLE_DEVICES $GPU_DEVICE_ORDINAL", job)
    assert said == "0 0", said
    logs = "\n".join(path.read_text() for path in (place.pool.directory / "log").glob("StarterLog.slot*"))
    return ", ".join(f"`{one}`" for one in GPU_OPTIONS if f" {one} " in logs)


GPU_OPTIONS = ("--device /dev/nvidiactl", "--device /dev/nvidia0", "--nv", "--rocm")


def cpu_shares(place: Place) -> str:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("the page tells of version 1 of control groups")
    name = f"a-job-of-{place.pool.mark}"
    over = "while [ ! -e /shared/over ]; do sleep 0.1; done"
    command = f'sh -c ""{over}"" {name} & echo there > /shared/there; wait'
    cluster = place.submit(command, "request_cpus = 2")
    place.until_file("there")
    shares = place.pool.until(lambda: _shares_of(name), "a process of the job's")
    (place.shared / "over").write_text("now")
    place.pool.until_done(cluster)
    return str(shares)


def _shares_of(name: str) -> int:
    """The cpu shares of the process with this word in its command, as the machine sees it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().split(b"\0")[-2:-1] == [name.encode()]:
                lines = (process / "cgroup").read_text().splitlines()
                found = dict(line.split(":", 2)[1:] for line in lines)
                return int(Path(f"/sys/fs/cgroup/cpu{found['cpu']}/cpu.shares").read_text())
    return 0


def shared_memory(place: Place) -> str:
    size = int(place.out("df -k /dev/shm | tail -n 1").split()[1])
    half = os.sysconf("SC_PHYS_PAGES") // 2 * os.sysconf("SC_PAGE_SIZE") >> 10  # the kernel halves the pages
    return "half of the machine's memory" if size == half else f"{size >> 10} MiB"


def input_and_output(place: Place) -> str:
    home = place.pool.place("given")
    (home / "given").write_text("given\n")
    ad = place.run("cat given > made", f"transfer_input_files = {home}/given")
    made = (place.home / "made").read_text()
    return "come and go" if ad.eval_int("ExitCode") == 0 and made == "given\n" else repr(made)


def own_program(place: Place) -> str:
    home = place.pool.place("given")
    (home / "mine").write_text("#!/bin/sh\necho mine $1\n")
    (home / "mine").chmod(0o755)
    return place.out("", "transfer_executable = true", f"executable = {home}/mine", "arguments = word")


def standard_files(place: Place) -> str:
    home = place.pool.place("given")
    (home / "in").write_text("given\n")
    place.run("cat; echo said >&2", f"input = {home}/in")
    said = [(place.home / name).read_text() for name in ("out", "err")]
    return "the job's files" if said == ["given\n", "said\n"] else repr(said)


def made_files(place: Place) -> str:
    account = pwd.getpwuid(os.geteuid()) if ACCOUNT is None else pwd.getpwnam(ACCOUNT)
    said = place.out(
        "umask; echo x > made; echo x > run; chmod 750 run; mkdir d; echo x > d/in",
        "transfer_output_files = made, run, d",
    )
    found = [(place.home / name).stat() for name in ("made", "run", "d/in")]
    modes = " ".join(f"{one.st_mode & 0o777:o}" for one in found)
    whose = "the user's" if {one.st_uid for one in found} == {account.pw_uid} else repr(found)
    return f"umask {said}, {whose}, {modes}"


def much_input_and_output(place: Place) -> str:
    home = place.pool.place("given")
    data = os.urandom(4 << 20)
    (home / "in").write_bytes(data)
    place.run("cat", f"input = {home}/in")
    return "all of it" if (place.home / "out").read_bytes() == data else "some of it"


def removed(place: Place) -> str:
    tick = "while :; do echo x >> /shared/ticks; sleep 0.05; done"
    command = f'trap """" TERM HUP; ({tick}) & setsid sh -c ""{tick}"" & {tick}'
    cluster = place.submit(command, "job_max_vacate_time = 1")
    place.until_file("ticks")
    place.pool.tool("condor_rm", str(cluster))
    place.pool.until_gone(cluster)
    ticks = place.shared / "ticks"
    size = ticks.stat().st_size
    place.pool.tool("condor_q")  # a while in which they would write
    return "all of its processes end" if ticks.stat().st_size == size else "some go on"


def _end(ad: ClassAd) -> str:
    if ad.eval_bool("ExitBySignal", False):
        return f"ExitSignal {ad.eval_int('ExitSignal')}"
    return f"ExitCode {ad.eval_int('ExitCode')}"


def exit_code(place: Place) -> str:
    return _end(place.run("exit 7"))


def signal(place: Place) -> str:
    return _end(place.run("kill -9 $$"))


def _held(place: Place, cluster: int) -> str:
    (ad,) = place.pool.until_status(cluster, 5)
    place.pool.tool("condor_rm", str(cluster))
    subcode = ad.eval_int("HoldReasonSubCode")
    return f"held, code {ad.eval_int('HoldReasonCode')}" + (f", subcode {subcode}" if subcode else "")


def memory(place: Place) -> str:
    if place.engine == "podman" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("the page tells of podman with version 1 of control groups")
    return _end_or_held(place, place.submit('exec /usr/bin/python3 -c ""x = bytearray(900 << 20)""'))


def words_of_memory(place: Place) -> str:
    if place.engine == "podman" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("the page tells of podman with version 1 of control groups")
    cluster = place.submit('exec /usr/bin/python3 -c ""x = bytearray(900 << 20)""')
    ad = _ended_or_held(place, cluster)
    place.pool.tool("condor_rm", str(cluster), check=False)
    said = re.sub(r"(?<=usage: )\d+", "N", ad.eval_str("HoldReason") or "")
    return said.partition(": ")[2] if said.startswith("Error from ") else said or "nothing"


def missing_program(place: Place) -> str:
    cluster = place.submit("", "executable = /no/such/program", "arguments =")
    return _end_or_held(place, cluster)


def _ended_or_held(place: Place, cluster: int) -> ClassAd:
    def there() -> list[ClassAd]:
        queue = [ad for ad in place.pool.jobs(str(cluster)) if ad.eval_int("JobStatus") == 5]
        return queue or place.pool.history(str(cluster))

    (ad,) = place.pool.until(there, "the job to end or to be held")
    return ad


def _end_or_held(place: Place, cluster: int) -> str:
    ad = _ended_or_held(place, cluster)
    return _held(place, cluster) if ad.eval_int("JobStatus") == 5 else _end(ad)


def missing_image(place: Place) -> str:
    none = "docker_image = localhost:1/none" if place.engine != "Apptainer" else "container_image = /no/such"
    cluster = place.submit("true", "transfer_container = false", image=none)

    def there() -> list[ClassAd]:
        jobs = place.pool.jobs(str(cluster))
        return [ad for ad in jobs if ad.eval_int("JobStatus") == 5 or ad.eval_int("NumVacates")]

    (ad,) = place.pool.until(there, "the job to be held, or sent back")
    if ad.eval_int("JobStatus") == 5:
        return _held(place, cluster)
    place.pool.tool("condor_rm", str(cluster))
    return f"idle again, VacateReasonCode {ad.eval_int('VacateReasonCode')}"


def shell(place: Place) -> str:
    cluster = place.submit("echo there > /shared/there; while [ ! -e /shared/over ]; do sleep 0.1; done", WORD)
    place.until_file("there")
    look = "cat /etc/image; echo $WORD; [ $PWD = $_CONDOR_SCRATCH_DIR ] && echo sandbox; for pid in $_CONDOR_JOB_PIDS; do cat /proc/$pid/comm 2> /dev/null || echo nobody; done; true"
    said = place.pool.tool("condor_ssh_to_job", str(cluster), look)
    (place.shared / "over").write_text("now")
    place.pool.until_done(cluster)
    lines = said.split()
    good = lines[:3] == ["thin", "carried", "sandbox"] and "sh" in lines[3:] and lines.count("nobody") < 2
    return "in the image" if good else repr(said)


WORD = 'environment = "WORD=carried"'


def chirp(place: Place) -> str:
    ad = place.run(f"cd /; {CHIRP} set_job_attr Answer 42 && {CHIRP} get_job_attr Answer", "want_io_proxy = true")
    said = (place.home / "out").read_text() + (place.home / "err").read_text()
    return "heard" if ad.eval_int("Answer") == 42 else said


def still_and_on(place: Place) -> str:
    cluster = place.submit("while [ ! -e /shared/over ]; do echo x >> /shared/ticks; sleep 0.05; done")
    place.until_file("ticks")
    place.pool.tool("condor_suspend", str(cluster))
    place.pool.until_status(cluster, 7)
    ticks = place.shared / "ticks"

    def stands_still() -> bool:
        before = ticks.stat().st_size
        place.pool.tool("condor_q")  # a while in which it would write
        return ticks.stat().st_size == before

    place.pool.until(stands_still, "the job to stand still")
    size = ticks.stat().st_size
    place.pool.tool("condor_continue", str(cluster))
    place.pool.until(lambda: ticks.stat().st_size > size, "the job to go on")
    (place.shared / "over").write_text("now")
    place.pool.until_done(cluster)
    return "stands still and goes on"


def vacate(place: Place) -> str:
    command = 'trap ""echo heard > /shared/heard; exit"" USR1; echo there > /shared/there; while :; do sleep 0.1; done'
    cluster = place.submit(command, "kill_sig = SIGUSR1", "requirements = MY.NumJobStarts =?= 0")
    place.until_file("there")
    place.pool.tool("condor_vacate_job", str(cluster))
    said = place.until_file("heard")
    place.pool.until_status(cluster, 1)
    place.pool.tool("condor_rm", str(cluster))
    place.pool.until_gone(cluster)
    return f"{said.strip()}, idle again"


def private_directories(place: Place) -> str:
    name = f"made-{place.pool.mark}"
    said = place.out(f"echo mine > /tmp/{name}; cat tmp/{name} /tmp/{name}")
    return "in the sandbox" if said == "mine\nmine" and not Path("/tmp", name).exists() else said


def own_private_directory(place: Place) -> str:
    said = place.out("echo mine > /opt/own/made; find . -name made", "mount_under_scratch = /opt/own")
    return "in the sandbox" if said.endswith("/opt/own/made") else said


def services(place: Place) -> str:
    over = "echo there > /shared/there; while [ ! -e /shared/over ]; do sleep 0.1; done"
    cluster = place.submit(over, "container_service_names = web", "web_container_port = 80")
    place.until_file("there")
    if place.engine != "Apptainer":  # it is told with the job's usage
        place.pool.until(lambda: place.pool.jobs(str(cluster))[0].eval_int("web_HostPort"), "the service's port")
    (place.shared / "over").write_text("now")
    (ad,) = place.pool.until_done(cluster)
    return "web_HostPort" if ad.eval_int("web_HostPort") else "none; its ports are the machine's"


def mounts(place: Place) -> str:
    said = place.out("echo written > /shared/written; touch /usr/touched 2> /dev/null || echo read-only")
    return "as their owner says" if said == "read-only" and place.until_file("written") == "written\n" else said


def from_registry(place: Place) -> str:
    image = f"container_image = docker://{place.registry}/tool"
    return f"{place.out('cat /etc/image', image=image)}, fetched"


def by_digest(place: Place) -> str:
    with urlopen(f"http://{place.registry}/v2/tool/manifests/latest") as answer:
        digest = answer.headers["Docker-Content-Digest"]
    image = f"container_image = docker://{place.registry}/tool@{digest}"
    return f"{place.out('cat /etc/image', image=image)}, fetched"


def fetched_again(place: Place) -> str:
    image = f"container_image = docker://{place.registry}/twice"
    times = []
    for _ in range(2):
        before = len(place.asked)
        assert place.out("cat /etc/image", image=image) == "thin"
        times.append(len(place.asked) - before)
    assert times[0], times
    return "fetched again" if times[1] else "the machine's own"


def private_image(place: Place) -> str:
    user, _, password = LOGIN.partition(":")
    login = f"environment = APPTAINER_DOCKER_USERNAME={user};APPTAINER_DOCKER_PASSWORD={password}"
    cluster = place.submit("cat /etc/image", login, image=f"container_image = docker://{place.private}/tool")
    ad = _ended_or_held(place, cluster)
    if ad.eval_int("JobStatus") == 5:
        assert re.search("auth|401", ad.eval_str("HoldReason") or ""), ad
        return _held(place, cluster)
    return f"{(place.home / 'out').read_text().strip()}, fetched"


LOGIN = "reader:secret"


def sent_credentials(place: Place) -> str:
    image = f"container_image = docker://{place.private}/tool"
    return _held(place, place.submit("true", "+DockerSendCredentials = true", image=image))


def image_file(place: Place) -> str:
    home = place.pool.place("given")
    file = home / "thin.sif"
    if place.engine == "Apptainer":
        words = ["apptainer", "-q", "build", str(file), place.image.split()[2]]
        account = {"user": ACCOUNT, "env": {**os.environ, "HOME": str(home)}} if ACCOUNT else {}
        subprocess.run(words, check=True, capture_output=True, **account)
    else:
        file.write_text("an image")
    image = f"container_image = {file}"
    if place.engine == "Apptainer":
        return place.out("cat /etc/image", image=image)
    cluster = place.submit("cat /etc/image", image=image)
    (job,) = place.pool.jobs(str(cluster))
    fits = [ad for ad in place.pool.slots() if expr("Requirements").eval(job, ad) is True]
    place.pool.tool("condor_rm", str(cluster))
    return "runs somewhere" if fits else "no machine for it"


def no_network(place: Place) -> str:
    said = set(place.out("cat /proc/net/dev | grep : | cut -d: -f1", "docker_network_type = none").split())
    return "none" if said == {"lo"} else "the machine's"


def processes(place: Place) -> str:
    numbers = place.out("ls /proc").split()
    count = len([name for name in numbers if name.isdigit()])
    return "its own" if count < 10 else f"{count}"


def network(place: Place) -> str:
    own = set(place.out("ls /sys/class/net; cat /proc/net/dev").split()) - {"lo"}
    host = set(os.listdir("/sys/class/net")) - {"lo"}
    if not host:
        pytest.skip("this machine has no network that could be told from one of the job's own")
    return "the machine's" if host <= {word.rstrip(":") for word in own} else "its own"


ROWS: dict[str, Callable[[Place], str]] = {
    "working directory, TMPDIR": working_directory,
    "`container_target_dir = /work`": target_directory,
    "user and group": user_and_group,
    "`environment = \"WORDS='two words'\"`": own_variables,
    "the pool's variables (`_CONDOR_...`)": pools_variables,
    "`request_cpus = 2`": threads,
    "`request_cpus = 2`, in cpu shares": cpu_shares,
    "`request_gpus = 1`": gpus,
    "`DOCKER_SHM_SIZE = 33554432`, of /dev/shm": shared_memory,
    "`executable` of one's own": own_program,
    "files that are transferred": input_and_output,
    "`input`, `output`, `error`": standard_files,
    "files that it makes": made_files,
    "4 MiB of input and output": much_input_and_output,
    "`exit 7`": exit_code,
    "a program that signal 9 ends": signal,
    "more memory than the slot has": memory,
    "what the job's owner is told of that": words_of_memory,
    "a program that is not there": missing_program,
    "an image that is not there": missing_image,
    "`container_image = docker://...`": from_registry,
    "the same with `@sha256:...`": by_digest,
    "the same image for the next job": fetched_again,
    "a private registry's, with `APPTAINER_DOCKER_USERNAME` and `..._PASSWORD` in `environment`": private_image,
    "`docker_send_credentials = true`": sent_credentials,
    "a `.sif` file": image_file,
    "condor_ssh_to_job": shell,
    "condor_chirp": chirp,
    "condor_suspend, condor_continue": still_and_on,
    "condor_vacate_job with `kill_sig = SIGUSR1`": vacate,
    "condor_rm": removed,
    "`MOUNT_UNDER_SCRATCH = /tmp`": private_directories,
    "`mount_under_scratch = /opt/own`": own_private_directory,
    "directories that the owner mounts": mounts,
    "processes that it sees": processes,
    "network": network,
    "`docker_network_type = none`": no_network,
    "`container_service_names = web`": services,
}


def table() -> list[list[str]]:
    """The cells of the page's table, heading first."""
    text = PAGE.read_text().partition(HEADING)[2]
    found = re.search(r"^\|.*(?:\n\|.*)*", text, re.M)
    assert found is not None
    lines = [line for line in found[0].splitlines() if not re.fullmatch(r"[|\- ]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _docker() -> dict[str, str] | None:
    program = shutil.which("docker") or ""
    if not program or subprocess.run([program, "info"], capture_output=True, check=False).returncode != 0:
        return None
    return {"DOCKER": program}


def _podman(place: Path, registries: tuple[str, ...], environment: pytest.MonkeyPatch) -> dict[str, str] | None:
    program = shutil.which("podman") or ""
    (place / "containers.conf").write_text(CONFIGURATION)
    environment.setenv("CONTAINERS_CONF", str(place / "containers.conf"))
    lines = (f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n' for registry in registries)
    (place / "registries.conf").write_text("".join(lines))
    environment.setenv("CONTAINERS_REGISTRIES_CONF", str(place / "registries.conf"))
    return {"DOCKER": program, "DOCKER_RUN_UNDER_INIT": "false"} if program else None


def _without_gpus(program: str, place: Path) -> str:
    """The same program on a machine that has no GPUs: it asks the engine for none of their devices."""
    script = place / Path(program).name
    script.write_text(WITHOUT_GPUS.format(program=program))
    script.chmod(0o755)
    return str(script)


GPU = {
    "MACHINE_RESOURCE_GPUs": "CUDA0",
    "GPUs_NvidiaDriver": '"550.54"',
    "STARTD_ATTRS": "GPUs_NvidiaDriver",
    "STARTD_DETECT_GPUS": "false",
}
"""A GPU that every machine has, as far as its startd knows."""
WITHOUT_GPUS = """#!/bin/sh
for word; do
    shift
    case $word in
        --device) ;;
        /dev/nvidia*) ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {program} "$@"
"""


def _engine_knobs(found: dict[str, str], shared: Path) -> dict[str, str]:
    knobs = {**found, "DOCKER_TRUST_LOCAL_IMAGES": "true", "DOCKER_SHM_SIZE": "33554432"}
    places = {**{path: f"{path}:ro" for path in SEEN}, str(shared): "/shared"}
    names = [f"SEEN{number}" for number in range(len(places))]
    for name, (source, target) in zip(names, places.items(), strict=True):
        knobs[f"DOCKER_VOLUME_DIR_{name}"] = f"{source}:{target}"
    return {**knobs, "DOCKER_VOLUMES": " ".join(names), "DOCKER_MOUNT_VOLUMES": " ".join(names)}


def _apptainer_knobs(program: str, shared: Path) -> dict[str, str]:
    binds = " ".join([*(f"{path}:{path}:ro" for path in SEEN), f"{shared}:/shared"])
    return {
        "SINGULARITY": program,
        "SINGULARITY_BIND_EXPR": f'"{binds}"',
        "SINGULARITY_EXTRA_ARGUMENTS": "--no-https --unsquash",
    }


@pytest.fixture(scope="module", params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A pool with that engine alone."""
    engine = request.param
    directory = tmp_path_factory.mktemp("engine")
    with (
        real_pool(user=ACCOUNT, start=False, NUM_CPUS=4, MOUNT_UNDER_SCRATCH="/tmp,/var/tmp", **GPU) as pool,
        registry(thin()) as (address, asked_for),
        registry(thin(), login=LOGIN) as (private, _),
        pytest.MonkeyPatch.context() as environment,
        ExitStack() as afterwards,
    ):
        shared = pool.place("shared")
        image = f"localhost/minipool-alike:{os.getpid()}"
        if engine == "Apptainer":
            program = shutil.which("apptainer")
            if program is None:
                pytest.skip("apptainer is not installed")
            pool.settings.update(_apptainer_knobs(program, shared))
            unpacked = pool.directory / "thin"
            unpacked.mkdir()
            subprocess.run(["tar", "-x", "-C", str(unpacked)], input=thin(), check=True)
            has, asked = "HasSandboxImage", f"container_image = {unpacked}\ntransfer_container = false"
        else:
            found = _docker() if engine == "docker" else _podman(directory, (address, private), environment)
            if found is None:
                pytest.skip(f"{engine} does not answer")
            engines = {**found, "DOCKER": _without_gpus(found["DOCKER"], pool.place("bin")), "SINGULARITY": ""}
            pool.settings.update(_engine_knobs(engines, shared))
            done = subprocess.run(
                [found["DOCKER"], "import", "-", image], input=thin(), capture_output=True, check=False
            )
            assert done.returncode == 0, done.stderr
            forget = [found["DOCKER"], "rmi", "-f", image, f"{address}/tool", f"{address}/twice"]
            afterwards.callback(subprocess.run, forget, capture_output=True, check=False)
            has, asked = "HasDocker", f"docker_image = {image}"
        pool.start()
        pool.until(lambda: [ad for ad in pool.slots() if ad.eval_bool(has)], f"{engine} to be tried")
        yield Place(pool, engine, asked, shared, address, asked_for, private)
        pool.tool("condor_rm", "-all", check=False)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_page_is_so(place: Place, row: str) -> None:
    heading, *rows = table()
    cells = dict(zip(heading[1:], next(cells for cells in rows if cells[0] == row)[1:], strict=True))
    assert ROWS[row](place) == cells[place.engine]


def test_the_page_has_these_rows() -> None:
    heading, *rows = table()
    assert heading[1:] == list(ENGINES)
    assert [cells[0] for cells in rows] == list(ROWS)
