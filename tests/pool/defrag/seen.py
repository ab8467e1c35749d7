"""Machines of a pool that is to be defragmented, as their partitionable slots' ads have them."""

from __future__ import annotations

from typing import Any

from pool.classad import ClassAd, expr
from pool.config import load_config
from pool.defrag.policy import DefragPolicy
from pool.defrag.survey import Survey

NAME = "cm.pool.test"
NOW = 1_700_000_000.0
MINE = {"Draining": True, "DrainReason": f"Defrag {NAME}", "DrainingRequestId": "1.1"}


def a_policy(**knobs: object) -> DefragPolicy:
    """The defaults, but one machine in each look, and what is said."""
    given = {"DRAINING_MACHINES_PER_HOUR": 6, **knobs}
    overrides = {f"DEFRAG_{name}": str(value) for name, value in given.items()}
    return DefragPolicy.read(load_config([], environ={}, overrides=overrides, subsystem="DEFRAG"), NAME)


def a_machine(host: str, *, free: int = 3, cpus: int = 8, **attributes: object) -> ClassAd:
    """A machine of eight cores, some of them free."""
    ad: dict[str, Any] = {
        "MyType": "Machine",
        "Name": f"slot1@{host}",
        "Machine": host,
        "MyAddress": f"<10.0.0.1:9618?alias={host}&sock=startd>",
        "PartitionableSlot": True,
        "SlotID": 1,
        "Cpus": free,
        "TotalSlotCpus": cpus,
        "TotalCpus": cpus,
        "ExpectedMachineGracefulDrainingCompletion": int(NOW) + 600,
        "ExpectedMachineGracefulDrainingBadput": 100,
        "ExpectedMachineQuickDrainingCompletion": int(NOW) + 10,
        "ExpectedMachineQuickDrainingBadput": 1000,
    }
    return ClassAd(ad | {name: expr(value) if isinstance(value, str) else value for name, value in attributes.items()})


def a_survey(policy: DefragPolicy, *ads: ClassAd) -> Survey:
    """What a look at these has shown."""
    survey = Survey()
    for ad in ads:
        survey.add(ad, policy, NOW)
    return survey
