"""Configurations of slots and what HTCondor 25.14 makes of them, read by the real configuration language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pool.base.errors import ConfigError
from pool.config import Config, load_config
from pool.gpus.discover import discover, parse_options
from pool.slots.provision.custom import custom_resources
from pool.slots.provision.inventory import Inventory, read_inventory
from pool.slots.provision.slot_types import Hardware, Layout, layout

DATA = json.loads((Path(__file__).parents[3] / "cases/slots/layouts.json").read_text())
CASES = DATA["cases"]


def configured(tmp_path: Path, lines: list[str]) -> Config:
    file = tmp_path / "config"
    file.write_text("\n".join([*lines, ""]))
    return load_config(environ={"CONDOR_CONFIG": str(file)})


def divided(config: Config) -> Layout:
    names = config.names(with_defaults=False)
    machine = DATA["hardware"]

    def get(name: str) -> str | None:
        return config[name] if config.is_set(name) else None

    inventories: dict[str, Inventory] = {}
    if command := get("MACHINE_RESOURCE_INVENTORY_GPUs"):
        printed = discover(parse_options(command.split()[1:]), list, {})
        inventories["GPUs"] = read_inventory("GPUs", "\n".join(printed))
    customs = custom_resources(names, get, inventories)
    hardware = Hardware(machine["cpus"], machine["memory"], machine["swap"], {"": machine["disk"]}, customs)
    return layout(names, get, hardware, where=lambda knob: str(config.where(knob)))


def row(slot: Any, like: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"slot": f"slot{slot.slot_id}", "kind": slot.kind.value, "type": slot.type_id}
    for name in like:
        if name.startswith("Assigned"):
            made[name] = ",".join(slot.ids[name.removeprefix("Assigned")])
        elif name not in made:
            made[name] = slot.amounts.of(name)
    return made


@pytest.mark.parametrize("case", CASES, ids=[case["says"] for case in CASES])
def test_a_machine_is_divided_as_htcondor_divides_it(case: dict[str, Any], tmp_path: Path) -> None:
    config = configured(tmp_path, ["DETECTED_CPUS_LIMIT = 4", *case["config"]])
    if case["name"] == "overabort":
        with pytest.raises(ConfigError, match=r"Cpus: 3 \+ 3 = 6, and there are 4 \(SLOT_TYPE_1 = .*line 3\)"):
            divided(config)
        return
    made = divided(config)
    assert [row(slot, like) for slot, like in zip(made.slots, case["slots"], strict=True)] == case["slots"]
    assert sorted(made.broken) == case["broken"]
    for number, reason in made.broken.items():
        assert reason.startswith(f"Could not create required number of type{number} slots (")
        assert f"{tmp_path}/config, line " in reason
