"""condor_submit: what it prints, on which stream, and that a wrong description queues nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import minipool.cli.entry.context
from minipool.client.session import Session
from protocol.messages.submit import ReserveCluster, ReservedCluster, SubmitJobs, Submitted
from protocol.wire.ad_table import unpack_ads
from protocol.wire.address import Address
from tests.minipool.cli.fake_pool import FakePeer

Result = tuple[int, str, str]
HINT = "To monitor your job(s), run: condor_watch_q -clusters 104\n"


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePeer:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("POOL_DIR", str(tmp_path))
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    peer = FakePeer([], {})
    peer.answers = {
        ReserveCluster: ReservedCluster(cluster=104),
        SubmitJobs: lambda request: Submitted(cluster=104, count=sum(len(unpack_ads(one)) for one in request.procs)),
    }
    monkeypatch.setattr(Session, "address", lambda *_, **__: Address.unix("/nowhere"))
    monkeypatch.setattr(Session, "connect", lambda *_, **__: peer)
    monkeypatch.setattr(minipool.cli.entry.context, "open_session", lambda _: Session.open())
    return peer


@pytest.fixture
def submit(
    peer: FakePeer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    from minipool.cli.entry.main import dispatch

    def run(*argv: str, text: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        status = dispatch("submit", list(argv))
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def sent(peer: FakePeer) -> list[SubmitJobs]:
    return [one for one in peer.asked if isinstance(one, SubmitJobs)]


DESCRIPTION = "executable = /bin/sleep\narguments = 1\noutput = out\nqueue 2\n"


def test_dots_and_the_cluster_go_to_standard_output_and_the_hint_does_not(submit: Callable[..., Result]) -> None:
    Path("a.sub").write_text(DESCRIPTION)
    assert submit("a.sub") == (0, "Submitting job(s)..\n2 job(s) submitted to cluster 104.\n", HINT)


def test_terse_prints_only_the_ids(submit: Callable[..., Result]) -> None:
    assert submit("-terse", text=DESCRIPTION) == (0, "104.0 - 104.1\n", "")


def test_a_description_that_mentions_the_cluster_knows_it_beforehand(
    submit: Callable[..., Result], peer: FakePeer
) -> None:
    submit(text="executable = /bin/true\noutput = o.$(Cluster).$(Process)\nqueue 2\n")
    [request] = sent(peer)
    assert request.cluster == 104
    assert request.cluster_ad["Out"] == "o.104.0"
    assert [ad.eval_str("Out") for ad in unpack_ads(request.procs[0])] == [None, "o.104.1"]


def test_the_command_line_adds_to_the_description(submit: Callable[..., Result], peer: FakePeer) -> None:
    submit(
        "arguments=7",
        "-append",
        '+Tag = "x"',
        "-batch-name",
        "my batch",
        "-queue",
        "3",
        text="executable = /bin/sleep\n",
    )
    [request] = sent(peer)
    assert (request.cluster_ad["Args"], request.cluster_ad["Tag"]) == ("7", "x")
    assert request.cluster_ad["JobBatchName"] == "my batch"
    assert len(unpack_ads(request.procs[0])) == 3


def test_an_unused_line_is_a_warning(submit: Callable[..., Result]) -> None:
    status, out, err = submit(text="executable = /bin/true\nreqest_memory = 10\nqueue\n")
    assert (status, out.splitlines()[-1]) == (0, "1 job(s) submitted to cluster 104.")
    assert err.startswith(f"{HINT}WARNING: the line 'reqest_memory = 10' was unused by condor_submit. Is it a typo?")


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", True),
        ("output = o\n", False),
        ("error = e\n", False),
        ("stdout = /dev/null\n", False),
        ("+Out = 1\n", False),
    ],
)
def test_whose_output_goes_nowhere_is_told(submit: Callable[..., Result], line: str, warned: bool) -> None:
    text = f"executable = /bin/true\n{line}queue\n"
    said = "WARNING: what the job prints is lost, for the description has neither `output =` nor `error =`\n"
    assert submit(text=text) == (0, "Submitting job(s).\n1 job(s) submitted to cluster 104.\n", HINT + said * warned)
    assert submit("-terse", text=text) == (0, "104.0 - 104.0\n", "")


def test_many_jobs_travel_in_chunks(submit: Callable[..., Result], peer: FakePeer) -> None:
    submit("-terse", text="executable = /bin/true\nqueue 1201\n")
    assert [len(unpack_ads(chunk)) for chunk in sent(peer)[0].procs] == [500, 500, 201]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arguments = 1\nqueue\n", "No 'executable' parameter was provided"),
        (
            "executable = /bin/true\nuniverse = planet\nqueue\n",
            "<stdin>:2:12: I don't know about the 'planet' universe.",
        ),
        ("executable = /bin/true\nqueue 1 in (\n", "<stdin>"),
        ("executable = /bin/true\nqueue from nofile.txt\n", "nofile.txt: No such file or directory"),
    ],
)
def test_a_wrong_description_queues_nothing(
    submit: Callable[..., Result], peer: FakePeer, text: str, said: str
) -> None:
    status, out, err = submit(text=text)
    assert (status, out) == (1, "Submitting job(s)")
    assert err.startswith("\nERROR: ")
    assert said in err
    assert not sent(peer)


def test_a_description_that_is_not_there_is_told(submit: Callable[..., Result]) -> None:
    said = "\nERROR: Failed to open command file (no_such_file.sub) (No such file or directory)\n"
    assert submit("no_such_file.sub") == (1, "", said)


def test_an_unknown_option_shows_the_usage(submit: Callable[..., Result]) -> None:
    status, out, err = submit("-nosuchoption", "a.sub")
    assert (status, out) == (1, "")
    assert "Usage: condor_submit [options] [<attrib>=<value>] [- | <submit-file>]" in err


def test_too_many_jobs_are_refused(submit: Callable[..., Result], peer: FakePeer) -> None:
    status, _, err = submit("-maxjobs", "1", text=DESCRIPTION)
    assert (status, sent(peer)) == (1, [])
    assert "Number of submitted jobs would exceed 1" in err


def test_a_dry_run_has_the_cluster_and_the_fullness_that_are_asked_for(submit: Callable[..., Result]) -> None:
    text = DESCRIPTION.replace("queue", "+Mine = $(Cluster)\nqueue", 1)
    status, out, err = submit("-dry-run:cluster=100", "-", text=text)
    assert (status, err, out.splitlines()[-1]) == (0, "", "2 job(s) dry-run to cluster 100.")
    assert (out.count("\nClusterId=100\n"), out.count("Mine=100\n"), out.count("\nCmd=")) == (1, 1, 1)
    assert submit("-dry:full,cluster=7", "-", text=text)[1].count("Mine=7\n") == 2
    assert submit("-dry-run:clutser=7", "-", text=text)[:1] == (1,)


def test_a_dry_run_writes_ads_and_queues_nothing(submit: Callable[..., Result], peer: FakePeer) -> None:
    status, out, err = submit("-dry-run", "-", text=DESCRIPTION)
    lines = out.splitlines()
    assert (status, err, lines[0], lines[-1]) == (0, "", "Dry-Run job(s)", "2 job(s) dry-run to cluster 1.")
    assert 'Cmd="/bin/sleep"' in lines
    assert lines[-4:-1] == ["ProcId=1", "JobStatus=1", "."]
    assert submit("-dry-run", "ads", text=DESCRIPTION)[1] == "Dry-Run job(s)..\n2 job(s) dry-run to cluster 1.\n"
    assert Path("ads").read_text().startswith("\n")
    assert not peer.asked


EMPTY = '\nWARNING: "a.sub" has only empty "queue" commands -- no jobs queued\n'


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Submitting job(s)\n"),
        (["-terse"], ""),
        (["-verbose"], "Submitting job(s)\n"),
        (["-dry-run", "-"], "Dry-Run job(s)\n"),
        (["-dry-run", "ads"], "Dry-Run job(s)\n"),
    ],
)
def test_no_item_is_no_job(submit: Callable[..., Result], peer: FakePeer, options: list[str], said: str) -> None:
    Path("a.sub").write_text("executable = /bin/sleep\nqueue x matching files *.nowhere\n")
    assert submit(*options, "a.sub") == (0, said, EMPTY)
    assert not peer.asked


def test_verbose_prints_every_ad(submit: Callable[..., Result]) -> None:
    status, out, err = submit("-verbose", text=DESCRIPTION)
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("**")] == ["** Proc 104.0:", "** Proc 104.1:"]
    assert out.count("\nClusterId = 104\n") == 2
