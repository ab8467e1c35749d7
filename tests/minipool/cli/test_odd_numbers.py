"""What an ad gives for a number or a time may be any number: a table shows what it can of it, and all the other ads."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch
from minipool.cli.output.show import span

ODD = ("99999999999999999", "-99999999999999999", 'real("INF")', '-real("INF")', 'real("NaN")', "1e300")
JOB = """MyType = "Job"\nClusterId = 1\nProcId = 0\nOwner = "alice"\nJobStatus = 2\nCmd = "x"\nUser = "alice@here"
QDate = {n}\nImageSize = {n}\nMemoryUsage = {n}\nServerTime = {n}\nRemoteUserCpu = {n}\nRemoteWallClockTime = {n}
ShadowBday = {n}\nJobPrio = {n}\nEnteredCurrentStatus = {n}\nHoldReasonCode = {n}\nLastMatchTime = {n}
LastRejMatchTime = {n}\nTotalSubmitProcs = {n}\nCompletionDate = {n}\nBytesSent = {n}\nBytesRecvd = {n}
Requirements = true\n
MyType = "Job"\nClusterId = 2\nProcId = 0\nOwner = "bob"\nJobStatus = 5\nCmd = "y"\nQDate = 9\n"""
SLOT = """MyType = "Machine"\nName = "slot1@odd"\nMachine = "odd"\nState = "Claimed"\nActivity = "Busy"\nOpSys = "LINUX"
Arch = "X86_64"\nOpSysAndVer = "Debian12"\nMemory = {n}\nCpus = {n}\nDisk = {n}\nMips = {n}\nKFlops = {n}\nLoadAvg = {n}
CondorLoadAvg = {n}\nEnteredCurrentActivity = {n}\nEnteredCurrentState = {n}\nMyCurrentTime = {n}\nLastHeardFrom = {n}
KeyboardIdle = {n}\nTotalMemory = {n}\nTotalCpus = {n}\nTotalSlots = {n}\nDaemonStartTime = {n}\nDetectedMemory = {n}
TotalInUseMemory = {n}\nTotalSlotMemory = {n}\nRecentJobStarts = {n}\nTotalSlotCpus = {n}\nTotalLoadAvg = {n}
PartitionableSlot = true\nNumDynamicSlots = {n}\nChildMemory = {{ {n} }}\nHealthFactor = {n}\nClassAdLifetime = {n}
TotalRunningJobs = {n}\nTotalIdleJobs = {n}\nTotalHeldJobs = {n}\nRunningJobs = {n}\nIdleJobs = {n}\nHeldJobs = {n}\n
MyType = "Machine"\nName = "slot1@good"\nMachine = "good"\nState = "Unclaimed"\nActivity = "Idle"\nOpSys = "LINUX"
Arch = "X86_64"\nMemory = 5\n"""
USER = """MyType = "Accounting"\nName = "odd@here"\nPriority = {n}\nPriorityFactor = {n}\nLastUsageTime = {n}
BeginUsageTime = {n}\nWeightedAccumulatedUsage = {n}\nWeightedResourcesUsed = {n}\nLastUpdate = {n}\nRequested = {n}\n
MyType = "Accounting"\nName = "good@here"\nPriority = 1.0\nPriorityFactor = 1.0\n"""


def printed(verb: str, argv: list[str]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        assert dispatch(verb, argv) == 0
    return out.getvalue()


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("verb", "source", "text", "views", "other"),
    [
        (
            "q",
            "-jobads",
            JOB,
            ["", "-nobatch", "-run", "-hold", "-io", "-idle", "-totals", "-nobatch -cputime", "-af:rh QDate", "-long"],
            "",
        ),
        (
            "history",
            "-file",
            JOB,
            ["", "-json", "-xml", "-format %d QDate -format %s Owner", "-format %c QDate -format %s Owner"],
            "bob",
        ),
        (
            "status",
            "-ads",
            SLOT,
            ["", "-compact", "-server", "-state", "-claimed", "-run", "-schedd", "-submitters", "-startd", "-absent"],
            "",
        ),
        ("userprio", "-inputfile", USER, ["-allusers", "-all -allusers", "-usage -allusers", "-long"], "good"),
    ],
)
def test_odd_numbers_cost_nobody_else_a_table(
    tmp_path: Path, odd: str, verb: str, source: str, text: str, views: list[str], other: str
) -> None:
    (tmp_path / "ads").write_text(text.format(n=odd))
    for view in views:
        assert other in printed(verb, [source, str(tmp_path / "ads"), *view.split()]), view


@pytest.mark.parametrize("odd", ODD)
def test_odd_numbers_are_no_end_of_an_analysis(tmp_path: Path, odd: str) -> None:
    (tmp_path / "ads").write_text(JOB.format(n=odd))
    (tmp_path / "slots").write_text(SLOT.format(n=odd))
    argv = ["-jobads", str(tmp_path / "ads"), "-slotads", str(tmp_path / "slots")]
    for view, shown in (("", "001.000"), (":summary", "\n1.0 "), (":reverse", "slot1@")):
        assert shown in printed("q", [*argv, f"-better-analyze{view}"])


@pytest.mark.parametrize("seconds", [0, 59, 60, 3599, 3600, 86_399, 86_400, 86_400 * 1000 - 1, 86_400 * 1000])
def test_whole_seconds_make_the_span_that_reals_make(seconds: int) -> None:
    assert span(seconds) == span(float(seconds))
    assert span(86_400 * 3 + 3661) == "  3+01:01:01"
