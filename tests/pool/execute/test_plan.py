from __future__ import annotations

import pytest

from pool.base.argv import split_new
from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.execute.plan import ExecuteSurroundings, plan_job, wants_transfer
from pool.execute.quoting import arguments_of, environment_of
from pool.execute.signals import soft_kill_signal

SLOT = ClassAd({"Name": "slot1_1@host", "Cpus": 3, "Memory": 512, "FileSystemDomain": "here"})
AROUND = ExecuteSurroundings(sandbox="/execute/dir_7", slot="slot1_1", starter_pid=7, home="/home/u", user="u")


def job(**attributes: object) -> ClassAd:
    return ClassAd({"Cmd": "/bin/prog", "Iwd": "/home/u/run", "FileSystemDomain": "here", **attributes})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a b  c", ["a", "b", "c"]),
        ("'a b' c", ["a b", "c"]),
        ("it''s", ["its"]),
        ("'it''s'", ["it's"]),
        ("''", [""]),
        ("a'b c'd", ["ab cd"]),
        ('"x" \\n', ['"x"', "\\n"]),
        ("a\tb", ["a", "b"]),
    ],
)
def test_new_form_words(text: str, words: list[str]) -> None:
    assert split_new(text) == words


def test_an_open_quote_is_an_error() -> None:
    with pytest.raises(UserError, match="Unbalanced"):
        split_new("a 'b")


def test_the_new_form_counts_when_both_are_there() -> None:
    assert arguments_of(ClassAd({"Args": "old", "Arguments": "'new one'"})) == ["new one"]
    assert arguments_of(ClassAd({"Args": "a 'b c'"})) == ["a", "'b", "c'"]
    assert environment_of(ClassAd({"Env": "A=1;B=two words"})) == {"A": "1", "B": "two words"}
    assert environment_of(ClassAd({"Env": "A=1|B=2", "EnvDelim": "|"})) == {"A": "1", "B": "2"}
    assert environment_of(ClassAd({"Env": "A=1", "Environment": "B='x y' C=a=b D="})) == {
        "B": "x y",
        "C": "a=b",
        "D": "",
    }


def test_files_stay_where_they_are_on_a_common_file_system() -> None:
    plan = plan_job(
        job(Cmd="prog", In="in.txt", Out="out.txt", Err="/dev/null", ShouldTransferFiles="IF_NEEDED"), SLOT, AROUND
    )
    assert not plan.transfers
    assert plan.program == "/home/u/run/prog"
    assert (plan.directory, plan.stdin, plan.stdout, plan.stderr) == (
        "/home/u/run", "/home/u/run/in.txt", "/home/u/run/out.txt", "/dev/null")  # fmt: skip


def test_a_transferred_job_lives_in_its_sandbox() -> None:
    plan = plan_job(
        job(Cmd="bin/prog", In="data/in.txt", Out="o/out", Err="o/err", ShouldTransferFiles="YES"), SLOT, AROUND
    )
    assert plan.transfers
    assert plan.argv == ["/execute/dir_7/prog"]
    assert plan.directory == "/execute/dir_7"
    assert plan.stdin == "/execute/dir_7/in.txt"
    assert plan.stdout == "/execute/dir_7/_condor_stdout"
    assert plan.stderr == "/execute/dir_7/_condor_stderr"


def test_one_file_for_output_and_error() -> None:
    plan = plan_job(job(Out="both", Err="both", ShouldTransferFiles="YES"), SLOT, AROUND)
    assert plan.stdout == plan.stderr == "/execute/dir_7/_condor_stdout"


def test_a_program_that_is_not_transferred_is_found_by_its_path() -> None:
    plan = plan_job(job(Cmd="/opt/tool", TransferExecutable=False, ShouldTransferFiles="YES"), SLOT, AROUND)
    assert plan.program == "/opt/tool"


@pytest.mark.parametrize(
    ("should", "domain", "moves"),
    [
        ("YES", "here", True),
        ("NO", "there", False),
        ("IF_NEEDED", "HERE", False),
        ("IF_NEEDED", "there", True),
        (None, "here", False),
    ],
)
def test_when_files_move(should: str | None, domain: str, moves: bool) -> None:
    ad = ClassAd({"FileSystemDomain": domain})
    if should:
        ad["ShouldTransferFiles"] = should
    assert wants_transfer(ad, ClassAd({"FileSystemDomain": "here"})) is moves


@pytest.mark.parametrize("who", [{"Owner": "root"}, {"Owner": "ann", "User": "ann@elsewhere"}])
def test_files_always_move_for_a_job_that_cannot_run_as_its_owner(who: dict[str, str]) -> None:
    ad = ClassAd({"ShouldTransferFiles": "NO", "FileSystemDomain": "here", **who})
    assert wants_transfer(ad, ClassAd({"FileSystemDomain": "here", "UidDomain": "here"}))


def test_the_environment_tells_the_job_where_it_is() -> None:
    environment = plan_job(
        job(Environment="OMP_NUM_THREADS=9 HERE=#CoNdOrScRaTcHdIr#/x TMPDIR=/elsewhere"), SLOT, AROUND
    ).environment
    assert environment["_CONDOR_SCRATCH_DIR"] == "/execute/dir_7"
    assert environment["_CONDOR_SLOT"] == "slot1_1"
    assert environment["_CONDOR_JOB_AD"] == "/execute/dir_7/.job.ad"
    assert environment["_CONDOR_MACHINE_AD"] == "/execute/dir_7/.machine.ad"
    assert environment["_CONDOR_JOB_IWD"] == "/home/u/run"
    assert environment["BATCH_SYSTEM"] == "HTCondor"
    assert environment["TMPDIR"] == environment["TEMP"] == environment["TMP"] == "/execute/dir_7"
    assert environment["OMP_NUM_THREADS"] == "9"
    assert environment["MKL_NUM_THREADS"] == "3"
    assert environment["HERE"] == "/execute/dir_7/x"
    assert environment["HOME"] == "/home/u"
    assert "PATH" not in environment


def test_assigned_resources_are_named_in_the_environment() -> None:
    slot = ClassAd({**SLOT, "MachineResources": "Cpus Memory Disk GPUs", "AssignedGPUs": "CUDA0,GPU-6a96bd13"})
    environment = plan_job(job(), slot, AROUND).environment
    assert environment["_CONDOR_AssignedGPUs"] == "CUDA0,GPU-6a96bd13"
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,GPU-6a96bd13"
    none = ClassAd({**SLOT, "MachineResources": "Cpus Memory Disk Swap GPUs"})
    assert plan_job(job(), none, AROUND).environment["NVIDIA_VISIBLE_DEVICES"] == "none"


def test_core_files_are_off_unless_asked_for() -> None:
    assert plan_job(job(), SLOT, AROUND).rlimits["CORE"] == 0
    assert plan_job(job(CoreSize=-1), SLOT, AROUND).rlimits["CORE"] == -1


@pytest.mark.parametrize(
    ("attributes", "purpose", "number"),
    [({}, "KillSig", 15), ({"KillSig": "SIGQUIT"}, "KillSig", 3), ({"KillSig": 3}, "KillSig", 3), ({"KillSig": "int"}, "KillSig", 2),
     ({"RemoveKillSig": "USR1", "KillSig": "HUP"}, "RemoveKillSig", 10), ({"KillSig": "HUP"}, "HoldKillSig", 1), ({"KillSig": "nonsense"}, "KillSig", 15)],
)  # fmt: skip
def test_the_soft_signal(attributes: dict[str, object], purpose: str, number: int) -> None:
    assert soft_kill_signal(ClassAd(attributes), purpose) == number
