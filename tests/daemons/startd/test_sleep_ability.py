"""Which program puts a machine to sleep, and with which words."""

from __future__ import annotations

import sys
from pathlib import Path

from daemons.startd.machine.sleep_ability import find_ability
from pool.power.states import SleepState

from .test_inventory import configured

PLUGIN = """\
#!/bin/sh
echo "$*" >> {asked}
echo 'HibernationSupportedStates = "S3,S5"'
"""


def test_a_plug_in_has_its_arguments_before_its_order(tmp_path: Path) -> None:
    plugin, asked = tmp_path / "plugin", tmp_path / "asked"
    plugin.write_text(PLUGIN.format(asked=asked))
    plugin.chmod(0o755)
    found = find_ability(
        configured(tmp_path, f"HIBERNATION_PLUGIN = {plugin}", "HIBERNATION_PLUGIN_ARGS = -x 'a b'"), ""
    )
    assert asked.read_text() == "-x a b ad\n"
    assert found.command == (str(plugin), "-x", "a b", "set")
    assert found.states == {SleepState.S3, SleepState.S5}


def test_the_method_of_the_own_plug_in_can_be_chosen(tmp_path: Path) -> None:
    found = find_ability(configured(tmp_path, "LINUX_HIBERNATION_METHOD = /proc"), "")
    assert found.command == (sys.executable, "-m", "daemons.libexec.power_state", "-m", "/proc", "set")
    wrong = find_ability(configured(tmp_path, "LINUX_HIBERNATION_METHOD = magic"), "")
    assert wrong.states == frozenset()
    assert wrong.said() == [
        "This machine is not put to sleep: magic is no method of putting a machine to sleep"
        " (expected pm-utils, systemctl, /sys, /proc)"
    ]
