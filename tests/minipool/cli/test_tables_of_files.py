"""Tables of ads in files, to the character: each case was printed by HTCondor 25.14 for the same files.

The cases are in tests/cases/cli/files/*.layouts: `=== $ command`, what it prints, `=== end`.
"""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch
from tests.minipool.cli.fake_pool import CASES

FILES = CASES / "files"
_CASE = re.compile(r"=== \$ condor_(\w+) ([^\n]*)\n(.*?)=== end\n", re.DOTALL)


def cases() -> list[tuple[str, str, str]]:
    return [case for path in sorted(FILES.glob("*.layouts")) for case in _CASE.findall(path.read_text())]


@pytest.fixture(autouse=True)
def in_the_zone_of_the_cases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def printed(verb: str, argv: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = dispatch(verb, argv)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(("verb", "argv", "expected"), [pytest.param(*case, id=" ".join(case[:2])) for case in cases()])
def test_the_table_is_htcondors(monkeypatch: pytest.MonkeyPatch, verb: str, argv: str, expected: str) -> None:
    monkeypatch.chdir(FILES)
    words = [str(CASES / word) if word == "machines.ads" else word for word in shlex.split(argv)]
    assert printed(verb, words) == (0, expected, "")


def test_there_are_cases() -> None:
    assert len(cases()) > 80


WRONG = (
    ("SELECT\n Owner PRINTAS NOPE\n", "2: Unknown argument NOPE for PRINTAS"),
    ("SELECT\n Own+ AS x\n", "2: attribute or expression is not valid: Own+"),
    ("SELECT\n Owner OR z\n", "2: Unknown argument z for OR"),
    ("SELECT\n Owner WIDTH\n", "2: expected a number or AUTO after WIDTH"),
    ("SELECT NOSUCH\n Owner\n", "1: Warning: Unknown header argument NOSUCH for SELECT"),
    ("SELECT\n Owner\nWHERE Owner ==\n", "3: WHERE expression is not valid: Owner =="),
    ("SELECT\n Owner\nSUMMARY foo\n", "3: Unknown argument foo for SUMMARY"),
    ("SELECT\n Owner\nGROUP BY Owner +\n", "3: GROUP BY expression is not valid: Owner +"),
    ("Owner\n", "1: Owner was unexpected: a print format begins with SELECT"),
)


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_in_a_print_format_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.cpf"
    path.write_text(text)
    status, _, err = printed("q", ["-jobads", str(FILES / "jobs.ads"), "-print-format", str(path)])
    assert (status, err) == (0, f"{path}:{message}\n")


def test_a_print_format_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    status, _, err = printed("q", ["-jobads", str(FILES / "jobs.ads"), "-pr", str(tmp_path / "none")])
    assert status == 1
    assert f"Can't open select file: {tmp_path / 'none'}" in err


def test_group_by_orders_numbers_by_value_in_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "sorted.cpf"
    path.write_text("SELECT BARE\n Owner\n JobPrio\nGROUP BY Owner\n ClusterId DESCENDING\n")
    jobs = str(FILES / "jobs.ads")
    _, out, _ = printed("q", ["-jobads", jobs, "-pr", str(path)])
    owners = [line.split()[0] for line in out.splitlines()]
    assert owners == sorted(owners)
    path.write_text("SELECT BARE\n ClusterId\nGROUP BY ClusterId DESCENDING\n")
    clusters = [int(line) for line in printed("q", ["-jobads", jobs, "-pr", str(path)])[1].split()]
    assert clusters == sorted(clusters, reverse=True)


def test_unique_rows_count_their_jobs(tmp_path: Path) -> None:
    path = tmp_path / "unique.cpf"
    path.write_text("SELECT UNIQUE BARE\n Owner\n JobCount PRINTF %d\n JobIds\n")
    _, out, _ = printed("q", ["-jobads", str(FILES / "jobs.ads"), "-pr", str(path)])
    counts = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}
    assert sum(counts.values()) == 19
    assert set(counts) == {"alice", "bob", "averyveryverylongownername"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("-schedd -negotiator", "Error:  Arg 2 (-negotiator) contradicts arg 1 (-schedd)"),
        ("-startd -compact", "Error:  arg (-compact) contradicts arg 1 (-startd)"),
        ("-xyz", "Error:  Unknown option -xyz"),
    ],
)
def test_options_of_condor_status_that_contradict_each_other_are_refused(argv: str, message: str) -> None:
    status, _, err = printed("status", argv.split())
    assert status == 1
    assert err.startswith(message)


def test_merge_says_which_ads_are_only_here_only_there_and_in_both(tmp_path: Path) -> None:
    machines = (CASES / "machines.ads").read_text().split("\n\n")
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("\n\n".join(machines[:2]) + "\n")
    there.write_text("\n\n".join(machines[1:3]) + "\n")
    _, out, _ = printed("status", ["-ads", str(here), "-merge", str(there), "-af", "Name"])
    assert out == (
        "The following ads were found only in the query:\nslot1@ap1.pool.test\n\n"
        f"The following ads were found in both the query and in '{there}':\nslot1_1@ap1.pool.test\n\n"
        f"The following ads were found only in '{there}':\nslot1_2@ap1.pool.test\n"
    )


@pytest.mark.parametrize(
    ("verb", "argv", "count"),
    [
        ("q", ["-jobads", str(FILES / "jobs.ads"), "-long"], 19),
        ("status", ["-ads", str(CASES / "machines.ads"), "-long"], 9),
        ("history", ["-file", str(FILES / "history"), "-long"], 19),
    ],
)
def test_htcondors_own_library_reads_whole_ads(verb: str, argv: list[str], count: int) -> None:
    classad2 = pytest.importorskip("classad2")
    status, out, _ = printed(verb, argv)
    ads = list(classad2.parseAds(out))
    assert (status, len(ads)) == (0, count)
    assert all("MyType" in ad or "ClusterId" in ad for ad in ads)


def test_an_extract_of_a_history_is_read_again(tmp_path: Path) -> None:
    source, copy = str(FILES / "history"), str(tmp_path / "copy")
    printed("history", ["-file", source, "-constraint", 'Owner == "bob"', "-extract", copy])
    wanted = printed("history", ["-file", source, "bob", "-af", "ClusterId", "ProcId"])
    assert wanted[1]
    assert printed("history", ["-file", copy, "-af", "ClusterId", "ProcId"]) == wanted


def test_the_print_format_of_the_docs_is_understood(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "tables-of-your-own.md"
    if not page.exists():
        pytest.skip("the pages are not part of a package")
    text = page.read_text()
    lines = [line[4:] for line in text[text.index("    # running.cpf") :].splitlines() if line.startswith("    ")]
    path = tmp_path / "running.cpf"
    path.write_text("\n".join(lines) + "\n")
    status, out, err = printed("q", ["-jobads", str(FILES / "jobs.ads"), "-print-format", str(path)])
    assert (status, err) == (0, "")
    assert "WHO" in out
    assert "running" in out
