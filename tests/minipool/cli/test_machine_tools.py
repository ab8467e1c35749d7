"""condor_drain, condor_vacate and condor_now: command lines that are wrong, said as users and scripts know it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from minipool.cli.admin_tools.admin import order
from minipool.cli.entry.machines import nobody
from minipool.cli.entry.main import dispatch

DRAIN = [
    ("", "ERROR: must specify one target machine\n"),
    ("one two", "ERROR: must specify one target machine\n"),
    ("-request-id 7 robin", "ERROR: -request-id may only be used with -cancel\n"),
    ("-cancel -check true robin", "ERROR: -check may not be used with -cancel\n"),
    ("-cancel -resume-on-completion robin", "ERROR: cannot use an -on-completion option with -cancel\n"),
    ("-cancel -reason x robin", "ERROR: cannot use -reason with -cancel\n"),
    ("-nonsense robin", "ERROR: unexpected argument: -nonsense\n"),
]
ORDERS = """
off               -> "Kill-All-Daemons" command to local master
off fast          -> "Kill-All-Daemons-Fast" command to local master
off peaceful      -> "Kill-All-Daemons-Peacefully" command to local master
off startd        -> "Kill-Daemon" command for "startd" to local master
off fast schedd   -> "Kill-Daemon-Fast" command for "schedd" to local master
off peaceful startd -> "Kill-Daemon-Peacefully" command to local master
off master        -> "Kill-Daemon" command for "master" to local master
on                -> "Spawn-All-Daemons" command to local master
on master         -> "Spawn-All-Daemons" command to local master
on negotiator     -> "Spawn-Daemon" command for "negotiator" to local master
restart           -> "Restart" command to local master
restart fast      -> "Restart-Fast" command to local master
restart peaceful  -> "Restart-Peaceful" command to local master
restart startd    -> "Restart" command to local startd
reconfig          -> "Reconfig" command to local master
reconfig startd   -> "Reconfig" command to local startd
reschedule        -> "Reschedule" command to local schedd
"""


def said(verb: str, argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = dispatch(verb, argv.split())
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(("argv", "error"), DRAIN)
def test_a_wrong_drain_is_refused_with_status_2(argv: str, error: str) -> None:
    assert said("drain", argv) == (2, "", error)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (
            "-exit-on-completion -restart-on-completion robin",
            "condor_drain: '-restart-on-completion' conflicts with previous use of '-exit-on-completion'\nUsage: ",
        ),
        ("robin -reason", "condor_drain: '-reason' requires another argument\nUsage: "),
    ],
)
def test_a_drain_whose_options_cannot_be_read_shows_the_usage(argv: str, error: str) -> None:
    status, out, err = said("drain", argv)
    assert (status, out) == (1, "")
    assert err.startswith(error)


@pytest.mark.parametrize("line", ORDERS.strip().splitlines())
def test_orders_to_daemons_are_called_as_scripts_know_them(line: str) -> None:
    words, _, expected = (part.strip() for part in line.partition("->"))
    verb, *rest = words.split()
    how = next((word for word in rest if word in ("fast", "peaceful")), "")
    daemon = next((word for word in rest if word != how), "")
    to, name, about = order(verb, how, daemon)
    assert f'"{name}" command {about}to local {to}' == expected


@pytest.mark.parametrize("verb", ["on", "off", "restart", "reconfig", "vacate"])
def test_an_argument_that_is_none_is_named_before_the_usage(verb: str) -> None:
    status, out, err = said(verb, "-nonsense")
    assert (status, out) == (1, "")
    assert err.startswith(f'ERROR: invalid argument "-nonsense"\nUsage: condor_{verb}')


def test_only_one_daemon_is_told_at_a_time() -> None:
    assert said("off", "-startd -schedd")[2].startswith("ERROR: can only specify one daemon flag.\nUsage: condor_off")


def test_a_machine_that_nobody_knows_is_no_host_or_has_no_startd() -> None:
    assert nobody("startd", "slot1@no.such.invalid", program="condor_vacate") == (
        "condor_vacate: unknown host no.such.invalid"
    )
    assert nobody("master", "localhost") == (
        "Can't find address for master localhost\nCan't find address for localhost\n"
        "Perhaps you need to query another pool."
    )


def test_a_constraint_and_names_do_not_go_together() -> None:
    status, out, err = said("vacate", "-constraint true robin")
    assert (status, out) == (1, "")
    assert err.startswith("ERROR: use of -constraint conflicts with other arguments")


@pytest.mark.parametrize("argv", ["", "1.0", "1.0 x", "one 2.0"])
def test_condor_now_wants_a_job_and_others_to_leave(argv: str) -> None:
    status, out, err = said("now", argv)
    assert (status, out) == (1, "")
    assert err.startswith("Usage: condor_now")
