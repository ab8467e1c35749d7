"""A starter is born for no slot, and hears of its own with a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemons.host.child_settings import StarterSettings, starter_payload, starter_slot
from pool.config.load import load_config
from pool.execute.cgroup import Trees


@pytest.mark.parametrize("trees", [Trees(0), Trees(2, (("", "/sys/fs/cgroup"),))])
def test_a_starter_takes_what_is_its_slots_own(tmp_path: Path, trees: Trees) -> None:
    own = {"SLOT1_2_USER": "guest", "ENFORCE_CPU_AFFINITY": "true", "SLOT1_CPU_AFFINITY": "3"}
    overrides = {"LOCAL_DIR": str(tmp_path), "EXECUTE": str(tmp_path / "execute"), **own}
    config = load_config([], overrides=overrides, environ={})
    born = StarterSettings.unpack(starter_payload(config, trees=trees, machine_memory_mb=100))
    assert (born.slot, born.group, born.cpu_affinity) == ("", "", [])
    settings = born.for_slot(starter_slot(config, "slot1_2@host", trees))
    assert (settings.slot, settings.fallback_account, settings.cpu_affinity) == ("slot1_2@host", "guest", [3])
    assert settings.log_path == f"{tmp_path}/log/StarterLog.slot1_2"
    assert bool(settings.group) is bool(trees.version)
    assert settings.machine_memory_mb == 100
