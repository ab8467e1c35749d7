"""Which mail the owners of jobs get."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.jobs.mail import Notification, letter
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.event import LogEvent

ENDED = log.Terminated(log.Exit(code=0))
STARTED = log.Executing("<a>")
BROKEN = log.Held("it broke", 13, 2)
ASKED = log.Held("by me", 1, 0)


def job(wish: Notification, **more: object) -> ClassAd:
    return ClassAd({"ClusterId": 7, "ProcId": 1, "Owner": "ann", "JobNotification": int(wish), "Cmd": "/x", **more})


@pytest.mark.parametrize(
    ("wish", "event", "code", "wanted"),
    [
        (Notification.NEVER, ENDED, 1, False),
        (Notification.ALWAYS, ENDED, 0, True),
        (Notification.ALWAYS, BROKEN, 0, True),
        (Notification.ALWAYS, STARTED, 0, False),
        (Notification.COMPLETE, ENDED, 0, True),
        (Notification.COMPLETE, BROKEN, 0, False),
        (Notification.ERROR, ENDED, 0, False),
        (Notification.ERROR, ENDED, 3, True),
        (Notification.ERROR, BROKEN, 0, True),
        (Notification.ERROR, ASKED, 0, False),
        (Notification.START, STARTED, 0, True),
        (Notification.START, ENDED, 0, False),
    ],
)
def test_owners_hear_what_they_want_to_hear(wish: Notification, event: LogEvent, code: int, wanted: bool) -> None:
    assert (letter(job(wish, ExitCode=code), event, "here") is not None) is wanted


def test_a_success_is_what_the_job_says_it_is() -> None:
    assert letter(job(Notification.ERROR, ExitCode=3, JobSuccessExitCode=3), ENDED, "here") is None
    assert letter(job(Notification.ERROR, ExitBySignal=True, ExitSignal=9), ENDED, "here") is not None


def test_the_letter_says_which_job_and_how_it_ended() -> None:
    one = letter(job(Notification.ALWAYS, ExitCode=3, Args="a b", EmailAttributes="Cmd,Nothing"), ENDED, "here")
    assert one is not None
    assert (one.to, one.subject) == (("ann@here",), "[Condor] Condor Job 7.1")
    assert "/x a b" in one.body
    assert "exited normally with status 3" in one.body
    assert 'Cmd = "/x"\nNothing = UNDEFINED\n' in one.body


@pytest.mark.parametrize(
    ("named", "to"),
    [
        ("bob", ("bob@here",)),
        ("bob@there.org, eve@x", ("bob@there.org", "eve@x")),
        ("-f/etc/passwd", ()),
        ("a;rm", ()),
        ("|cat", ()),
    ],
)
def test_only_addresses_are_written_to(named: str, to: tuple[str, ...]) -> None:
    one = letter(job(Notification.ALWAYS, NotifyUser=named), ENDED, "here")
    assert (() if one is None else one.to) == to
