"""What qsub's options become in a submit description."""

from __future__ import annotations

import pytest

from pool.base.errors import SubmitError
from pool.classad import quote
from pool.submit.qsub import Wishes, description, read_wishes


def lines(command: str) -> dict[str, str]:
    """The commands of the description; the queue statement is `queue`."""
    found = {}
    wishes = read_wishes(command.split())
    for line in description(wishes, here="/here", shell="/bin/bash", directories=["logs", "errors/"]).splitlines():
        name, equals, value = line.partition(" = ")
        found[name if equals else "queue"] = value if equals else line
    return found


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("job.sh", {"executable": "/bin/bash", "arguments": '"job.sh"', "output": "job.sh.o$(Cluster)"}),
        ("dir/job.sh one two", {"arguments": '"dir/job.sh one two"', "batch_name": "job.sh"}),
        ("-N name job.sh", {"batch_name": "name", "error": "name.e$(Cluster)"}),
        ("-S /bin/sh job.sh", {"executable": "/bin/sh"}),
        ("-b y hostname -f", {"arguments": "\"-c 'hostname -f'\""}),
        ("-cwd job.sh", {"initialdir": "/here"}),
        ("-wd /there job.sh", {"initialdir": "/there"}),
        ("-d /there job.sh", {"initialdir": "/there"}),
        ("-o host:out -e err job.sh", {"output": "out", "error": "err"}),
        ("-o logs -e h:errors/ -N n job.sh", {"output": "logs/n.o$(Cluster)", "error": "errors/n.e$(Cluster)"}),
        ("-j oe -e logs job.sh", {"output": "logs/job.sh.e$(Cluster)", "error": "logs/job.sh.e$(Cluster)"}),
        ("-j oe -e both job.sh", {"output": "both", "error": "both"}),
        ("-j eo job.sh", {"output": "job.sh.o$(Cluster)", "error": "job.sh.o$(Cluster)"}),
        ("-h job.sh", {"hold": "True"}),
        ("-hold_jid 7 job.sh", {"hold": "True"}),
        ("-p -5 job.sh", {"priority": "-5"}),
        ("-A physics job.sh", {"accounting_group": "physics"}),
        ("-r n job.sh", {"periodic_remove": "JobStatus == 1 && NumJobStarts > 0"}),
        ("-V job.sh", {"getenv": "True"}),
        ("-v A=1,B=two job.sh", {"environment": '"A=1 B=two"'}),
        ("-v HOME,A=1 job.sh", {"getenv": "HOME", "environment": '"A=1"'}),
        ("-m e -M me@home job.sh", {"notification": "Complete", "notify_user": "me@home"}),
        ("-m a job.sh", {"notification": "Error"}),
        ("job.sh", {"notification": "Never", "queue": "queue"}),
        ("-l mem=200mb,file=1gb,procs=4 job.sh", {
            "request_memory": "200MB", "request_disk": "1GB", "request_cpus": "4"}),
        ("-l nodes=1:ppn=8:gpus=2 job.sh", {"request_cpus": "8", "request_gpus": "2"}),
        ("-l nodes=node7 job.sh", {"requirements": 'Machine == "node7"'}),
        ("-l arch=X86_64,opsys=LINUX job.sh", {"requirements": 'Arch == "X86_64" && OpSys == "LINUX"'}),
        ("-l mem=1000 job.sh", {"request_memory": "1KB"}),
        ("-W stagein=a@h:b,c@h:d,stageout=x@h:y job.sh", {
            "transfer_input_files": "b, d", "transfer_output_files": "y"}),
        ("-t 2-6:2 job.sh", {
            "queue": "queue Item in (2 4 6)", "output": "job.sh.o$(Cluster).$(Item)",
            "environment": '"SGE_TASK_ID=$(Item) SGE_TASK_FIRST=2 SGE_TASK_LAST=6 SGE_TASK_STEPSIZE=2'
                           ' PBS_ARRAYID=$(Item)"'}),
    ],
)  # fmt: skip
def test_an_option_becomes_a_submit_command(command: str, expected: dict[str, str]) -> None:
    found = lines(command)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("-nonsense job.sh", "Unknown option -nonsense"),
        ("-Z job.sh", "Unknown option -Z"),
        ("-N", "Option -N requires a value"),
        ("-t x job.sh", "-t x: this is not"),
        ("-l mem=much job.sh", "much is not a size"),
        ("-l nodes=4 job.sh", "several machines"),
        ("-l software=x job.sh", "-l software=x: this resource is not known"),
    ],
)
def test_what_cannot_be_is_refused(command: str, said: str) -> None:
    with pytest.raises(SubmitError, match=said.replace("(", r"\(")):
        lines(command)


def test_a_script_asks_for_itself_and_the_command_line_is_stronger() -> None:
    wishes = read_wishes(["-N", "mine", "job.sh"])
    wishes.add_script("#!/bin/sh\n#PBS -N theirs -l mem=1gb\n#$ -cwd\n# -h\n#PBSx -h\nsleep 1\n")
    assert isinstance(wishes, Wishes)
    assert (wishes.value("N"), wishes.value("l"), wishes.has("cwd"), wishes.has("h")) == (
        "mine",
        "mem=1gb",
        True,
        False,
    )


@pytest.mark.parametrize("count", ["²", "٣"])
def test_a_number_of_nodes_is_plain_digits(count: str) -> None:
    assert lines(f"-l nodes={count} job.sh")["requirements"] == f"Machine == {quote(count)}"
