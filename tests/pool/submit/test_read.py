"""Every submit command has its effect, or is marked as without effect and read by nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache

import pytest

from pool.config import load_config
from pool.submit import commands, read_submit
from pool.submit.without_effect import WITHOUT_EFFECT, idle_line
from tests.pool.config.test_read import constants, trees

BEFORE = ("pool/submit/", "minipool/", "pool/jobs/vocabulary/own_attributes.py")
"""Code that only passes attributes on."""

AT_SUBMISSION = {
    "RequireGPUs": "goes into the request for GPUs, as the next five do",
    "GPUsMinMemory": "",
    "GPUsMinCapability": "",
    "GPUsMaxCapability": "",
    "GPUsMinRuntime": "",
    "CUDAVersion": "becomes a part of Requirements",
    "MaxRequestMemory": "becomes a part of RequestMemory, as the next does",
    "NextRequestMemory": "",
    "TransferContainer": "decides whether the image is a part of TransferInput",
    "JobVMType": "becomes a part of Requirements",
    "VMPARAM_No_Output_VM": "empties TransferOutput",
    "JobVMVNCConsole": "can only be false",
    "JobMaxRetries": "becomes a part of OnExitRemove",
}
"""Attributes that have had their effect when the job is in the queue."""
TOLD = frozenset(("JobDescription", "JobBatchId", "DAGManJobId"))
"""Attributes for people and programs that look at the queue."""
ALWAYS = frozenset(("EncryptInputFiles", "EncryptOutputFiles"))
"""Attributes that ask for what is always done."""
BUILT = frozenset(
    (
        *("TransferOut", "TransferErr", "StreamOut", "StreamErr"),  # f"Transfer{name}", f"Stream{name}"
        *("OnExitHoldReason", "OnExitHoldSubCode", "PeriodicHoldReason", "PeriodicHoldSubCode"),  # f"{rule}Reason"
    )
)
"""Attributes whose names the code puts together."""


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten() -> Iterator[None]:
    """As those who made them do."""
    gc.disable()
    yield
    trees.cache_clear()
    gc.enable()


@cache
def read() -> frozenset[str]:
    """What code that runs after the submission says, in lower case, word by word."""
    said = (text for file, tree in trees().items() if not file.startswith(BEFORE) for text in constants(tree))
    return frozenset(word for text in said for word in text.lower().split())


def rows() -> list[tuple[str, str]]:
    return [(one.name, one.attribute) for one in commands.COMMANDS]


def test_every_command_is_read_or_marked() -> None:
    fine = {*AT_SUBMISSION, *TOLD, *ALWAYS, *BUILT, ""}
    assert [
        name
        for name, attribute in rows()
        if attribute not in fine and "<" not in name and attribute.lower() not in read() and name not in WITHOUT_EFFECT
    ] == []


def test_nothing_that_is_marked_is_read() -> None:
    attributes = dict(rows())
    assert [name for name in WITHOUT_EFFECT if attributes[name].lower() in read()] == []


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_each_draws_a_warning_unless_it_asks_for_what_is_done_anyway(name: str) -> None:
    why, fine = WITHOUT_EFFECT[name]
    assert idle_line(name, "x") == f"the command '{name}' has no effect: {why}"
    assert idle_line(name, fine.upper()) is None


def test_the_warning_comes_for_an_attribute_too() -> None:
    text = "executable = /bin/true\n+ManifestDesired = true\nwant_job_networking = true\nqueue\n"
    plan = read_submit(text, config=load_config([], environ={}))
    assert plan.unused() == ["the command 'MY.ManifestDesired' has no effect: no lists of the sandbox's files are made"]
