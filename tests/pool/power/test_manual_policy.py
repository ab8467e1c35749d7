"""The policy of HTCondor's chapter "Power Management", as it stands there, with the macros of a policy for desktops."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.classad import ClassAd
from pool.classad.values.environment import ENV
from pool.config import load_config
from pool.power.states import SleepState, state_of

MANUAL = """\
use POLICY : Desktop
TimeToWait  = (2 * $(HOUR))
ShouldHibernate = ( (KeyboardIdle > $(StartIdleTime)) \\
                    && $(CPUIdle) \\
                    && ($(StateTimer) > $(TimeToWait)) )
HibernateState  = "RAM"
HIBERNATE = ifThenElse($(ShouldHibernate), $(HibernateState), "NONE" )
"""
HOUR = 3600
NOW = 1_795_946_330


@pytest.mark.parametrize(
    ("keyboard_s", "load", "since_s", "state"),
    [
        (HOUR, 0.0, 3 * HOUR, SleepState.S3),
        (60, 0.0, 3 * HOUR, SleepState.NONE),
        (HOUR, 2.0, 3 * HOUR, SleepState.NONE),
        (HOUR, 0.0, HOUR, SleepState.NONE),
    ],
)
def test_the_manuals_policy_sends_a_machine_to_sleep_that_is_unclaimed_and_idle(
    tmp_path: Path, keyboard_s: int, load: float, since_s: int, state: SleepState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ENV, "clock", lambda: NOW)
    (tmp_path / "config").write_text(MANUAL)
    config = load_config([str(tmp_path / "config")], environ={})
    wanted = config.expr("HIBERNATE")
    assert wanted is not None
    idle = {"KeyboardIdle": keyboard_s, "LoadAvg": load, "CondorLoadAvg": 0.0}
    slot = ClassAd({**idle, "EnteredCurrentState": NOW - since_s})
    assert state_of(wanted.eval(slot)) is state
