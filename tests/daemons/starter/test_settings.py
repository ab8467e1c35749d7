from __future__ import annotations

from pathlib import Path

import pytest

from daemons.host.child_settings import StarterSettings, payload_of_neighbour, starter_payload
from pool.config.load import load_config
from pool.execute.cgroup import Trees


@pytest.mark.parametrize("trees", [Trees(0), Trees(2, (("", "/sys/fs/cgroup"),))])
def test_the_payload_made_from_a_neighbours_is_the_slots_own(tmp_path: Path, trees: Trees) -> None:
    overrides = {"LOCAL_DIR": str(tmp_path), "EXECUTE": str(tmp_path / "execute"), "SLOT1_2_USER": "guest"}
    config = load_config([], overrides=overrides, environ={})
    first = starter_payload(config, "slot1_1@host", trees=trees, machine_memory_mb=100)
    own = starter_payload(config, "slot1_2@host", trees=trees, machine_memory_mb=100)
    assert first != own
    made = payload_of_neighbour(first, config, "slot1_2@host")
    assert StarterSettings.unpack(made) == StarterSettings.unpack(own)
