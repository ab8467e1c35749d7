"""The table of knobs."""

from __future__ import annotations

import re

import pytest

from pool.base.errors import ClassAdError
from pool.config import knobs, load_config, templates

ALL = [knob for _, section in knobs.sections() for knob in section]


LINE = "A_LIMIT int 1..9 restart no-effect = 3 # How many there may be."


def test_a_line_says_all_about_a_knob() -> None:
    knob = knobs.KnobTable(f"# a comment\n\n[Some section]\n{LINE}\n").find("a_limit")
    assert knob is not None
    assert {name: getattr(knob, name) for name in knob.__slots__} == {
        "name": "A_LIMIT",
        "section": "Some section",
        "kind": "int",
        "range": "1..9",
        "restart": True,
        "has_effect": False,
        "default": "3",
        "sentence": "How many there may be.",
    }


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("WRONG", "expected NAME TYPE = DEFAULT # One sentence."),
        ("WRONG = 3 # No type.", "expected NAME TYPE"),
        ("WRONG int # No default.", "expected NAME TYPE"),
        ("WRONG int = 3", "expected NAME TYPE"),
        ("WRONG integer = 3 # A type of another name.", '"integer" is not a type'),
        ("WRONG int 1.. restrat = 3 # A wrong word.", '"1.. restrat" is neither LOW..HIGH, restart nor no-effect'),
        ("WRONG int 5 = 3 # No range.", '"5" is neither LOW..HIGH'),
        ("WRONG int = 3 # No full stop", "the sentence has no full stop"),
        ("a_Limit int = 3 # Another of that name.", "an earlier line has this knob"),
    ],
)
def test_a_wrong_line_of_the_table_is_named(line: str, trouble: str) -> None:
    with pytest.raises(knobs.KnobTableError, match=rf"knobs\.txt:3: {re.escape(trouble)}.*: {re.escape(line)}$"):
        knobs.KnobTable(f"[Some section]\n{LINE}\n{line}\n").knobs()


def test_the_pages_table_has_every_line_of_the_file() -> None:
    with open(knobs.FILE, encoding="utf-8") as file:
        lines = [line for line in file if line.strip() and line[0] not in "#["]
    assert len(ALL) == len(lines) > 800


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
            config = load_config(["f"], environ={}, read={"f": text}.get)
            for known in config.names(with_defaults=False):
                config[known]


def test_every_heading_of_the_templates_file_is_a_template() -> None:
    with open(templates.FILE, encoding="utf-8") as file:
        heads = [line.strip() for line in file if line.startswith("[")]
    assert len(heads) == len(set(heads)) == 60
    assert [head for head in heads if not re.fullmatch(r"\[[A-Z]+ : \S+\]", head)] == []
    for head in heads:
        category, _, name = head.strip("[]").partition(" : ")
        assert templates.text(category, name), head
