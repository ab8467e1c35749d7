"""The table of knobs."""

from __future__ import annotations

import pytest

from pool.config import knobs, load_config, templates
from pool.errors import ClassAdError

KINDS = {"string", "int", "bool", "float", "seconds", "bytes", "path", "list", "expr"}
ALL = [knob for _, section in knobs.sections() for knob in section]


def test_every_row_is_whole() -> None:
    for knob in ALL:
        assert knob.kind in KINDS, knob.name
        assert knob.sentence.endswith("."), knob.name
        assert knob.bounds() is not None


def test_names_are_listed_once() -> None:
    names = [knob.name.lower() for knob in ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("SLOT_TYPE_1", "SLOT_TYPE_<N>"),
        ("NUM_SLOTS_TYPE_12", "NUM_SLOTS_TYPE_<N>"),
        ("slot_type_3_partitionable", "SLOT_TYPE_<N>_PARTITIONABLE"),
        ("ALLOW_WRITE_SCHEDD", "ALLOW_<LEVEL>_<SUBSYS>"),
        ("ALLOW_READ", "ALLOW_READ"),
        ("MAX_SCHEDD_LOG", "MAX_<SUBSYS>_LOG"),
        ("STARTD_CRON_test_MODE", "<DAEMON>_CRON_<NAME>_MODE"),
        ("JAVA5_HOOK_PREPARE_JOB", "<KEYWORD>_HOOK_PREPARE_JOB"),
        ("MACHINE_RESOURCE_cogs", "MACHINE_RESOURCE_<NAME>"),
        ("SCHEDD", "<SUBSYS>"),
    ],
)
def test_families(name: str, family: str) -> None:
    knob = knobs.find(name)
    assert knob is not None
    assert knob.name == family


def test_a_name_of_ones_own_is_no_knob() -> None:
    assert knobs.find("MY_OWN_NAME_FOR_SOMETHING") is None


def test_defaults_can_be_read_as_their_types() -> None:
    config = load_config([], environ={"HOME": "/home/x"})
    for knob in ALL:
        if knob.is_family or not knob.default or "." in knob.name:
            continue
        reader = getattr(config, {"string": "str"}.get(knob.kind, knob.kind))
        try:
            reader(knob.name)
        except ClassAdError as error:
            pytest.fail(f"{knob.name}: {error}")


def test_every_template_reads_without_error() -> None:
    arguments = {
        "Monitor": "(a, Periodic, 300, /bin/x, SUM:x)",
        "AssignAccountingGroup": "(/m)",
        "AssignProjectName": "(m)",
        "SetJobAttrFromUsermap": "(A, B, C)",
        "ScheddUsermapFile": "(a, /m)",
        "OneShotCronHook": "(STARTD_CRON, tag, /bin/x)",
        "PeriodicCronHook": "(STARTD_CRON, tag, 5m, /bin/x)",
        "ContinuousCronHook": "(STARTD_CRON, tag, /bin/x)",
        "StartdCronOneShot": "(tag, /bin/x)",
        "ScheddCronOneShot": "(tag, /bin/x)",
        "StartdCronPeriodic": "(tag, 5m, /bin/x)",
        "ScheddCronPeriodic": "(tag, 5m, /bin/x)",
        "StartdCronContinuous": "(tag, /bin/x)",
        "ScheddCronContinuous": "(tag, /bin/x)",
        "PREEMPT_IF": "(FOO)",
        "WANT_HOLD_IF": "(FOO, 3, why)",
    }
    for category in templates.categories():
        for name in templates.names(category):
            text = f"FOO = true\nuse {category} : {name}{arguments.get(name, '')}\n"
            config = load_config(["f"], environ={}, read=lambda _, text=text: text)
            for known in config.names(with_defaults=False):
                config[known]


def test_a_registered_template_can_be_used() -> None:
    templates.register("FEATURE", "OfATest", "OF_A_TEST = $(1:none)")
    try:
        config = load_config(["f"], environ={}, read=lambda _: "use feature : ofatest(x)\n")
        assert config["OF_A_TEST"] == "x"
    finally:
        templates.TEXTS["FEATURE"].pop("OfATest")
