"""Whom the rooster wakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr
from pool.config import Config, load_config
from pool.power.rooster import RoosterPolicy, to_wake


def a_config(tmp_path: Path, **knobs: str) -> Config:
    file = tmp_path / "config"
    file.write_text("".join(f"{name} = {value}\n" for name, value in knobs.items()))
    return load_config([str(file)], environ={})


def a_sleeper(machine: str, slot: int = 1, **attributes: object) -> ClassAd:
    return ClassAd(
        {
            "Name": f"slot{slot}@{machine}",
            "Machine": machine,
            "Offline": True,
            "Unhibernate": expr("MachineLastMatchTime =!= undefined"),
            **attributes,
        }
    )


def woken(tmp_path: Path, *slots: ClassAd, **knobs: str) -> list[str]:
    return [one.slot.eval_str("Name", "") for one in to_wake(slots, RoosterPolicy.read(a_config(tmp_path, **knobs)))]


def test_a_machine_is_woken_when_one_of_its_slots_is_wanted(tmp_path: Path) -> None:
    slots = [a_sleeper("a"), a_sleeper("a", 2, MachineLastMatchTime=1), a_sleeper("b"), a_sleeper("c", Offline=False)]
    assert woken(tmp_path, *slots) == ["slot2@a"]


def test_the_command_gets_the_slot_that_ranks_highest_and_each_machine_one_call(tmp_path: Path) -> None:
    slots = [a_sleeper("a", n, MachineLastMatchTime=1, Cpus=cpus) for n, cpus in ((1, 2), (2, 8), (3, 4))]
    assert woken(tmp_path, *slots, ROOSTER_UNHIBERNATE_RANK="Cpus") == ["slot2@a"]
    assert woken(tmp_path, *slots) == ["slot1@a"]


def test_no_more_are_woken_than_allowed_and_the_best_first(tmp_path: Path) -> None:
    slots = [a_sleeper(name, MachineLastMatchTime=1, Mips=mips) for name, mips in (("a", 1), ("b", 3), ("c", 2))]
    rank = {"ROOSTER_UNHIBERNATE_RANK": "Mips"}
    assert woken(tmp_path, *slots, **rank) == ["slot1@b", "slot1@c", "slot1@a"]
    assert woken(tmp_path, *slots, ROOSTER_MAX_UNHIBERNATE="2", **rank) == ["slot1@b", "slot1@c"]
    assert woken(tmp_path, *slots, ROOSTER_UNHIBERNATE_RANK="Nothing") == ["slot1@a", "slot1@b", "slot1@c"]


def test_the_owner_of_the_machine_and_of_the_rooster_both_have_a_say(tmp_path: Path) -> None:
    slots = [a_sleeper("a", Unhibernate=expr("Hour > 3"), Hour=5), a_sleeper("b", Unhibernate=True, Hour=5)]
    assert woken(tmp_path, *slots) == ["slot1@a", "slot1@b"]
    mine = 'Offline && Unhibernate && Machine == "b"'
    assert woken(tmp_path, *slots, ROOSTER_UNHIBERNATE=mine) == ["slot1@b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"/opt/wake -d \'two words\' ""quoted"""', ("/opt/wake", "-d", "two words", '"quoted"')),
        ("/opt/wake -d", ("/opt/wake", "-d")),
    ],
)
def test_the_command_is_quoted_as_arguments_are(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert RoosterPolicy.read(a_config(tmp_path, ROOSTER_WAKEUP_CMD=text)).command == words


def test_by_default_the_command_is_condor_power(tmp_path: Path) -> None:
    assert RoosterPolicy.read(a_config(tmp_path, BIN="/opt/bin")).command == ("/opt/bin/condor_power", "-d", "-i")


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"ROOSTER_WAKEUP_CMD": '"/opt/wake'}, "Unterminated double-quote"),
        ({"ROOSTER_WAKEUP_CMD": '""'}, "ROOSTER_WAKEUP_CMD is empty"),
        ({"ROOSTER_UNHIBERNATE": ""}, "ROOSTER_UNHIBERNATE is empty"),
    ],
)
def test_what_would_wake_nobody_ever_is_refused_with_its_place(
    tmp_path: Path, knobs: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"config:1.*{said}"):
        RoosterPolicy.read(a_config(tmp_path, **knobs))
