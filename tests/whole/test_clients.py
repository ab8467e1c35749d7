"""What programs written for HTCondor's command line type, and how they read the answers.

Each case is one such program: its exact command lines, and the way in which it takes the answers apart.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

JOB = "executable = /bin/sleep\narguments = 1000\ntransfer_executable = false\nlog = log\nqueue 2\n"
HELD = "executable = /bin/sleep\narguments = 1\nhold = true\nqueue\n"
DONE = "executable = /bin/sh\narguments = \"-c 'exit 3'\"\ntransfer_executable = false\nlog = done.log\nqueue\n"


class Shell:
    """A shell in a directory with three submit files, on a pool where one cluster runs, one is held, one is done."""

    def __init__(self, pool: RealPool) -> None:
        self.pool, self.home = pool, pool.directory / "home"
        self.home.mkdir()
        self.home.chmod(0o777)
        for name, text in (("job.sub", JOB), ("held.sub", HELD), ("done.sub", DONE)):
            (self.home / name).write_text(text)
        self.done = pool.submit(DONE, cwd=self.home)
        self.running = pool.submit(JOB, cwd=self.home)
        self.held = pool.submit(HELD, cwd=self.home)
        pool.until_done(self.done)
        pool.until_status(self.running, 2, count=2)

    def __call__(self, command: str, *, status: int = 0) -> str:
        """Standard output of a command line, whose exit status is checked."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.home,
            env={**self.pool.env(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            **as_account(self.pool.user),
        )
        assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def until_two_are_claimed(self) -> None:
        """Wait until the collector knows the slots of the running cluster, and no more those of jobs that are removed."""

        def are() -> bool:
            slots = self.pool.slots()
            claimed = [ad for ad in slots if ad.eval_str("State") == "Claimed"]
            cpus = [ad.eval_int("Cpus") for ad in slots if ad.eval_bool("PartitionableSlot")]
            return (len(claimed), cpus) == (2, [2])

        self.pool.until(are, "the slots of two jobs, and no other")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with real_pool(NUM_CPUS=4) as pool:
        yield Shell(pool)


def _nextflow(shell: Shell) -> None:
    said = shell("condor_submit --terse held.sub")
    found = re.match(r"(\d+\.\d+) - (\d+\.\d+)\s*\Z", said)
    assert found is not None
    rows: dict[str, str] = {}
    header = False
    for line in shell("condor_q -nobatch").splitlines():
        if not header:
            header = line.startswith(" ID ")
            continue
        if not line.strip():
            break
        columns = line.split()
        rows[columns[0]] = columns[5]
    assert rows[f"{shell.running}.0"] == "R"
    assert rows[found[1]] == "H"
    shell(f"condor_rm {found[1]}")


def _parsl(shell: Shell) -> None:
    said = shell("condor_submit job.sub")
    (line,) = [line for line in said.splitlines() if re.match("^[0-9]", line)]
    cluster = line.split(" ")[5].rstrip(".")
    assert cluster.isdigit()
    ids = f"{shell.running}.0 {shell.running}.1 {shell.held}.0"
    rows = [line.split() for line in shell(f"condor_q {ids} -af:jr JobStatus").splitlines()]
    assert rows == [[f"{shell.running}.0", "2"], [f"{shell.running}.1", "2"], [f"{shell.held}.0", "5"]]
    shell(f"condor_rm {cluster}")


def _law(shell: Shell) -> None:
    expression = re.compile(r"^(\d+) job\(s\) submitted to cluster (\d+)\.$")
    found = [match for line in shell("condor_submit held.sub").splitlines() if (match := expression.match(line))]
    assert [match[1] for match in found] == ["1"]
    cluster = found[0][2]
    attributes = "ClusterId,ProcId,JobStatus,HoldReason"
    blocks = shell(f"condor_q {cluster} {shell.running} -long -attributes {attributes}").strip().split("\n\n")
    ads = [dict(re.findall(r"(\w+) \= \"?([^\n\"]*)\"?", block)) for block in blocks]
    assert {(ad["ClusterId"], ad["JobStatus"]) for ad in ads} == {(cluster, "5"), (str(shell.running), "2")}
    past = shell(f"condor_history {shell.done} -long -limit 1 -attributes ClusterId,ExitCode,JobStatus,RemoveReason")
    assert dict(re.findall(r"(\w+) \= \"?([^\n\"]*)\"?", past))["ExitCode"] == "3"
    shell(f"condor_rm {cluster}")


def _b2luigi(shell: Shell) -> None:
    ads = json.loads(shell("condor_q -json -attributes ClusterId,ProcId,JobStatus,JobBatchName,RequestMemory"))
    assert {(ad["ClusterId"], ad["JobStatus"]) for ad in ads} >= {(shell.running, 2), (shell.held, 5)}
    (ad,) = json.loads(shell(f"condor_history -json -attributes ClusterId,ExitCode,JobStatus -match 1 {shell.done}"))
    assert (ad["ExitCode"], ad["JobStatus"]) == (3, 4)
    assert shell("condor_q -json -attributes JobStatus 999999") == ""  # which it takes for a job that is gone
    assert json.loads(shell("condor_history -json -attributes ExitCode 999999")) == []


def _ganga(shell: Shell) -> None:
    said = shell("condor_submit -v held.sub")
    (id,) = [line.strip(":").split()[2] for line in said.splitlines() if line.startswith("** Proc")]
    assert re.fullmatch(r"\d+\.0", id)
    name = shell(f'condor_q -format "%s" GlobalJobId {id}')
    assert name.partition("#")[2].startswith(f"{id}#")
    said = shell(
        'condor_q -global -format "%s " GlobalJobId -format "%s " RemoteHost -format "%d " JobStatus'
        ' -format "%f\\n" RemoteUserCpu'
    )
    running = [line.split() for line in said.splitlines() if f"#{shell.running}.0#" in line]
    assert [row[2] for row in running] == ["2"]
    shell(f"condor_rm {id}")


def _shell_script(shell: Shell) -> None:
    cluster = shell(
        "condor_submit held.sub > submit.log 2>&1; grep ' submitted to cluster ' submit.log"
        " | sed 's|.* ||;s| ||g;s|\\.$||'"
    ).strip()
    status = shell(f"condor_q -json -attributes JobStatus {cluster} | grep 'JobStatus' | sed 's|.*: *||;s| ||g'")
    assert (cluster.isdigit(), status) == (True, "5\n")
    shell(f"condor_rm {cluster}")
    assert shell(f"condor_q -json -attributes JobStatus {cluster} | grep -c JobStatus", status=1) == "0\n"


def _dirac(shell: Shell) -> None:
    first, last = shell("condor_submit -terse held.sub").strip().split(" - ")
    assert first == last
    said = shell(f"condor_q {first.partition('.')[0]} -af:j JobStatus HoldReasonCode HoldReasonSubCode HoldReason")
    id, status, code, subcode, *reason = said.split()
    assert (id, status, code) == (first, "5", "15")
    assert subcode in ("0", "undefined")
    assert " ".join(reason) == "submitted on hold at user's request"
    past = shell(f"condor_history {shell.done}.0 -af:j JobStatus ExitCode -match 1")
    assert past.split() == [f"{shell.done}.0", "4", "3"]
    shell(f"condor_rm {first}")


def _cromwell(shell: Shell) -> None:
    found = re.match(r"(?sm).*cluster (\d+)..*", shell("condor_submit held.sub"))
    assert found is not None
    assert f"ID: {found[1]}" in shell(f"condor_q {found[1]}")
    said = shell(f"condor_rm {found[1]}")
    assert said == f"All jobs in cluster {found[1]} have been marked for removal\n"


def _glidein(shell: Shell) -> None:
    queue = ElementTree.fromstring(shell("condor_q -g -l -xml"))
    clusters = {text.text for ad in queue for text in ad.findall("a[@n='ClusterId']/i")}
    assert {str(shell.running), str(shell.held)} <= clusters
    status = ElementTree.fromstring(shell("condor_status -any -l -xml"))
    types = {text.text for ad in status for text in ad.findall("a[@n='MyType']/s")}
    assert {"Machine", "Scheduler", "Collector"} <= types
    shell.until_two_are_claimed()
    states = shell("condor_status -format '%s ' Name -format '%s\\n' State -constraint 'State == \"Claimed\"'")
    assert [line.split()[1] for line in states.splitlines()] == ["Claimed"] * 2


def _counting_scripts(shell: Shell) -> None:
    ids = f"{shell.running} {shell.held}"
    assert shell(f"condor_q -nobatch {ids} | grep -c ' R '") == "2\n"
    totals = shell(f"condor_q -totals {ids}")
    found = re.search(r"Total for query: (\d+) jobs; .* (\d+) running, (\d+) held", totals)
    assert found is not None
    assert found.groups() == ("3", "2", "1")
    assert shell(f"condor_q {shell.running} -format '%d\\n' ProcId | wc -l").strip() == "2"
    held = shell("condor_q -constraint 'JobStatus == 5' -af ClusterId HoldReasonCode").splitlines()
    assert f"{shell.held} 15" in held
    assert str(shell.held) in shell("condor_q -hold -af ClusterId").splitlines()


def _waiting_scripts(shell: Shell) -> None:
    assert shell("condor_wait done.log") == "All jobs done.\n"
    assert shell(f"condor_wait -wait 1 log {shell.running}.0", status=1) == "Time expired.\n"
    assert "(return value 3)" in (shell.home / "done.log").read_text()


def _tardis(shell: Shell) -> None:
    description = (shell.home / "held.sub").read_text().replace("queue\n", "queue 1\n") * 3
    said = shell(f"condor_submit -verbose -maxjobs 3 <<'END'\n{description}END")
    ids = [
        found[1]
        for line in said.splitlines()
        if line.startswith("** Proc") and (found := re.search(r"Proc\s(\d+\.\d+)", line))
    ]
    assert [id.partition(".")[2] for id in ids] == ["0", "1", "2"]
    rows = [
        line.split("\t") for line in shell(f"condor_q {' '.join(ids)} -af:t JobStatus ClusterId ProcId").splitlines()
    ]
    assert rows == [["5", *id.split(".")] for id in ids]
    refused = shell(f"condor_suspend {ids[0]} 2>&1", status=1)
    assert "not running to be" in refused
    said = shell(f"condor_rm {' '.join(ids)}")
    assert re.findall(r"Job\s(\d+\.\d+)", said) == ids
    assert all(line.endswith("marked for removal") for line in said.splitlines())
    assert "not found" in shell(f"condor_rm {' '.join(ids)} 2>&1 >/dev/null", status=1)
    (machine,) = shell("condor_status -af:t Machine -collector").splitlines()
    (master,) = shell(
        f"condor_status -af:t Machine DaemonStartTime -constraint 'Machine == \"{machine}\"' -master"
    ).splitlines()
    assert int(master.split("\t")[1]) > 0
    shell.until_two_are_claimed()
    share = "'Real(TotalSlotCpus-Cpus)/TotalSlotCpus'"
    said = shell(
        f"condor_status -af:t Machine Name State TardisDroneUuid {share} -constraint 'PartitionableSlot=?=True'"
    )
    (slot,) = [line.split("\t") for line in said.splitlines()]
    assert (slot[0], slot[1], slot[3], float(slot[4])) == (machine, f"slot1@{machine}", "undefined", 0.5)


def _ipyparallel(shell: Shell) -> None:
    found = re.search(r"(\d+)\.$", shell("condor_submit ./held.sub").strip())
    assert found is not None
    shell(f"condor_rm {found[1]}")


def _batchspawner(shell: Shell) -> None:
    found = re.search(r".*submitted to cluster ([0-9]+)", shell("condor_submit < held.sub"))
    assert found is not None
    query = 'condor_q {} -format "%s, " JobStatus -format "%s" RemoteHost -format "\\n" True'
    assert shell(query.format(found[1])) == "5, \n"
    assert re.fullmatch(r"2, .*@([^ ]*)\n", shell(query.format(f"{shell.running}.0")))
    shell(f"condor_rm {found[1]}")
    assert shell(query.format(found[1])) == ""
    assert "Couldn't find/remove all jobs" in shell(f"condor_rm {found[1]} 2>&1", status=1)


def _parsl_cancels(shell: Shell) -> None:
    description = f"machine_count = 1\n+projectname =\nleave_in_queue = TRUE\n{JOB.replace('queue 2', 'queue')}"
    said = shell(f"condor_submit <<'END'\n{description}END")
    id = said.splitlines()[1].split(" ")[5].rstrip(".") + ".0"
    shell.pool.until(lambda: shell(f"condor_q {id} -af:jr JobStatus") == f"{id} 2\n", f"{id} to run")
    said = shell(f"condor_rm {id}; condor_rm -forcex {id}")
    assert said.splitlines() == [f"Job {id} marked for removal", f"Job {id} removed locally (remote state unknown)"]
    shell.pool.until(lambda: shell(f"condor_q {id} -af:jr JobStatus") == "", f"the end of {id}")


def _law_lines(shell: Shell) -> None:
    ads = "ClusterId ProcId JobStatus ExitCode HoldReason RemoteHost"
    blocks = shell(f"condor_q {shell.running}.0 {shell.held}.0 -af:lng {ads} -limit 2").strip().split("\n\n")
    found = [dict(re.findall(r"(\w+) \= \"?([^\n\"]*)\"?", block)) for block in blocks]
    assert [(ad["ClusterId"], ad["JobStatus"]) for ad in found] == [(str(shell.running), "2"), (str(shell.held), "5")]
    assert (found[0]["ExitCode"], found[1]["HoldReason"][:12]) == ("undefined", "submitted on")


def _nipype(shell: Shell) -> None:
    (shell.home / "script.sh").write_text("#$ -V\n#$ -S /bin/sh\n\nsleep 1000\n")
    cluster = int(shell(f"condor_qsub -o {shell.home} -e {shell.home} -N a.wf script.sh").split(" ")[2])
    assert shell(f"condor_q {cluster} -af Out Err").split() == [str(shell.home / f"a.wf.{x}{cluster}") for x in "oe"]
    shell(f"condor_rm {cluster}")


def _auditor(shell: Shell) -> None:
    name = shell("condor_status -schedd -af Name").strip()
    names = ["GlobalJobId", "ClusterId", "Owner", "RequestCpus", "RemoteWallClockTime", "CompletionDate", "NoSuch"]
    select = "-since 'CompletionDate <= 1 && CompletionDate > 0' -constraint 'JobStatus == 3 || JobStatus == 4'"
    said = shell(f"condor_history -backwards -wide -name {name} {select} -af:, {' '.join(names)}")
    rows = [dict(zip(names, map(str.strip, line.split(",")), strict=True)) for line in said.splitlines()]
    (row,) = [row for row in rows if row["ClusterId"] == str(shell.done)]
    assert (row["RequestCpus"], row["NoSuch"], float(row["RemoteWallClockTime"]) >= 0) == ("1", "undefined", True)
    assert str(shell.done) not in shell(f"condor_history -backwards -since {shell.done}.0 -af ClusterId").split()


def _saga(shell: Shell) -> None:
    said = shell(f"condor_q -long {shell.running}.0 | grep -e '^JobStatus' -e '^ExitStatus' -e '^CompletionDate'")
    assert dict(line.split(" = ") for line in said.splitlines()) == {"JobStatus": "2", "ExitStatus": "0"}
    shell("which condor_version condor_submit condor_q condor_history condor_vacate condor_rm")


def _condorpy(shell: Shell) -> None:
    query = "{} -format '\"%d\"' JobStatus"
    command = f"condor_q {query} && condor_history {query}"
    assert shell(command.format(shell.held, shell.held)).replace('"', "") == "5"
    assert shell(command.format(shell.done, shell.done)).replace('"', "") == "4"


CLIENTS: list[Callable[[Shell], None]] = [
    _nextflow,
    _parsl,
    _law,
    _b2luigi,
    _ganga,
    _shell_script,
    _dirac,
    _cromwell,
    _glidein,
    _counting_scripts,
    _waiting_scripts,
    _tardis,
    _ipyparallel,
    _batchspawner,
    _parsl_cancels,
    _law_lines,
    _nipype,
    _auditor,
    _saga,
    _condorpy,
]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.strip("_"))
def test_a_program_finds_what_it_looks_for(shell: Shell, client: Callable[[Shell], None]) -> None:
    client(shell)
