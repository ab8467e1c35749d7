"""The table of submit commands: each is read by the step that its line names, and each step is named or needs no command."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from pool.base.errors import SubmitError
from pool.config.knobs import KnobTableError
from pool.submit import commands, job_ad, program
from pool.submit.job import JobDraft
from pool.submit.scope import Scope
from tests.pool.submit.build import Place
from tests.pool.submit.test_conformance import ROWS

RUN = "executable = /bin/sh\n"
FURTHER: tuple[tuple[str, dict[str, Any]], ...] = (
    (RUN + "queue", {"interactive": True}),
    ("executable = dos.sh\nqueue", {}),
    (RUN + "container_service_names = web\nweb_container_port = 80\nqueue", {}),
    (RUN + "request_gadgets = 1\nqueue", {}),
    (f"universe = parallel\n{RUN}queue", {}),
    ("universe = vm\nvm_type = kvm\nvm_memory = 64\nvm_disk = /d.img:vda:r:raw\nqueue", {}),
    (RUN + "on_evict_checks = one\ntransform_body_one = SET A 1\nqueue", {}),
)
"""Descriptions with what those of `tests/cases/submit` do not ask for."""
MEMBERS = {
    "request_<name>": "request_gadgets",
    "<service>_container_port": "web_container_port",
    "transform_body_<name>": "transform_body_one",
}
"""A member of each family."""
WITHOUT_COMMANDS = {
    "job_ad._extended": "the administrator's commands",
    "job_ad._forced": "lines +Name",
    "job_ad._forced_by_configuration": "SUBMIT_ATTRS",
    "job_ad._job_set": "the cluster's other jobs",
    "job_ad._simple": "the commands that name no step",
    "open_checks.open_checks": "looks at files that other steps have put into the ad",
    "policy.automatic": "attributes of each job",
    "policy.mistakes": "warns of what other steps have made",
    "resources.docker_credentials": "docker_send_credentials is in the ad already",
    "resources.gpu_requirements": "is done when forced attributes are known",
    "resources.no_negative_requests": "is done when forced attributes are known",
}


def name_of(step: Callable[[JobDraft], None]) -> str:
    return f"{step.__module__.rpartition('.')[2]}.{step.__name__}"


STEPS = (program.universe, *job_ad.STEPS)


@pytest.fixture
def asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Which steps ask for each name, in lower case, when many descriptions become jobs."""
    found: dict[str, set[str]] = defaultdict(set)
    running: list[str] = [""]

    def watched(step: Callable[[JobDraft], None]) -> Callable[[JobDraft], None]:
        def run(job: JobDraft) -> None:
            running.append(name_of(step))
            try:
                step(job)
            finally:
                running.pop()

        return run

    def lookup(scope: Scope, name: str, *, of: Callable[[Scope, str], str | None] = Scope.lookup) -> str | None:
        found[name.lower()].add(running[-1])
        return of(scope, name)

    monkeypatch.setattr(job_ad, "STEPS", tuple(watched(step) for step in job_ad.STEPS))
    monkeypatch.setattr(program, "universe", watched(program.universe))
    monkeypatch.setattr(Scope, "lookup", lookup)
    (place.where / "dos.sh").write_text("#!/bin/sh\r\n")
    known = ((row["description"], {"knobs": row.get("config", {})}) for row in ROWS)
    for description, options in (*known, *FURTHER):
        with contextlib.suppress(SubmitError):  # a step has asked for what it refuses
            for _ in place.plan(description, **options).procs():
                pass
    return found


def test_every_command_is_read_by_the_step_of_its_line(asked: dict[str, set[str]]) -> None:
    wrong = {
        one.name: (one.step, sorted(readers))
        for one in commands.COMMANDS
        if (one.step or "job_ad._simple") not in (readers := asked.get(MEMBERS.get(one.name, one.name).lower(), set()))
    }
    assert wrong == {}


def test_every_step_is_named_by_a_command_or_needs_none() -> None:
    named = {one.step for one in commands.COMMANDS if one.step}
    assert {name_of(step) for step in STEPS} == named | WITHOUT_COMMANDS.keys()
    assert named & WITHOUT_COMMANDS.keys() == set()


def test_names_are_listed_once_and_sentences_end() -> None:
    names = [one.name.lower() for one in commands.COMMANDS]
    assert len(names) == len(set(names)) > 200
    assert [one.name for one in commands.COMMANDS if not one.sentence.endswith(".")] == []


@pytest.mark.parametrize(
    "line",
    [
        "wrong",
        "wrong Wrong # Neither a reading nor a step.",
        "wrong Wrong strnig # A reading that there is not.",
        "wrong Wrong policy # A policy without its step.",
        "wrong Wrong string program.executable # Both.",
    ],
)
def test_a_wrong_line_of_the_table_is_named(line: str) -> None:
    with pytest.raises(KnobTableError, match=rf"commands\.txt:3: expected COMMAND .*: {re.escape(line)}$"):
        commands.read_table(f"[Some section]\nfine Fine string # A fine one.\n{line}\n")
