"""condor_drain, condor_vacate and condor_now: command lines that are wrong, said as users and scripts know it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from minipool.cli.main import dispatch

DRAIN = [
    ("", "ERROR: must specify one target machine\n"),
    ("one two", "ERROR: must specify one target machine\n"),
    ("-request-id 7 robin", "ERROR: -request-id may only be used with -cancel\n"),
    ("-cancel -check true robin", "ERROR: -check may not be used with -cancel\n"),
    ("-cancel -resume-on-completion robin", "ERROR: cannot use an -on-completion option with -cancel\n"),
    ("-cancel -reason x robin", "ERROR: cannot use -reason with -cancel\n"),
    ("-nonsense robin", "ERROR: unexpected argument: -nonsense\n"),
    (
        "-exit-on-completion -restart-on-completion robin",
        "ERROR: '-restart-on-completion' conflicts with previous use of '-exit-on-completion'\n",
    ),
]


def said(verb: str, argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = dispatch(verb, argv.split())
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(("argv", "error"), DRAIN)
def test_a_wrong_drain_is_refused_with_status_2(argv: str, error: str) -> None:
    assert said("drain", argv) == (2, "", error)


def test_a_constraint_and_names_do_not_go_together() -> None:
    status, out, err = said("vacate", "-constraint true robin")
    assert (status, out) == (1, "")
    assert err.startswith("ERROR: use of -constraint conflicts with other arguments")


@pytest.mark.parametrize("argv", ["", "1.0", "1.0 x", "one 2.0"])
def test_condor_now_wants_a_job_and_others_to_leave(argv: str) -> None:
    status, out, err = said("now", argv)
    assert (status, out) == (1, "")
    assert err.startswith("Usage: condor_now")
