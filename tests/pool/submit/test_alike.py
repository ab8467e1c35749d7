"""A description that is filled in for each node of a graph gives the plan that it gives when it is read."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pool.base.errors import SubmitError
from pool.submit import SubmitPlan, SubmitWorld, alike, read_submit
from pool.submit.alike import TEMPLATES_MAX, Description
from tests.pool.submit.build import Place, a_config, long, run
from tests.pool.submit.test_template import COMMANDS, VALUES

MORE = (
    *("if $(x) == 1\narguments = yes\nendif", "if defined y\n+Y = 1\nendif", "x = $(x) more", "queue $(y)", "z = $(x)"),
    *(
        "arguments = $(x) $(z:none)",
        "+T = $(submit_time)",
        "output = $RANDOM_CHOICE(a,b)$(x)",
        "include : $(x)",
        "q = 1",
    ),
    *("include : inc", "error = $(SUBMIT_FILE)", "executable = $(x).sh", "max_idle = $(x)", "batch_name = $ENV(HOME)"),
    *(
        "queue 2",
        "queue x in (1)",
        "JOBSET.Name = $(x)",
        "+Job = $(JobId)",
        "initialdir = .",
        "$(x) = 1",
        "priorty = $(x)",
    ),
)


def a_description(place: Place, text: str) -> Description:
    return Description(
        text, config=a_config(), cwd=str(place.where), env=place.env, user="peer", world=SubmitWorld(run=run, read_file=lambda path: (place.where / path).read_text()),
        queue_args=None if "queue" in text else "1",
    )  # fmt: skip


def read(of: Description, extra: Sequence[str], appended: Sequence[str]) -> SubmitPlan:
    return read_submit(
        of.text, config=of.config, file="t.sub", cwd=of.cwd, env=of.env, extra=extra, appended=appended, user=of.user,
        queue_args=of.queue_args, now=1_700_000_000, world=of.world, skip_checks=True,
    )  # fmt: skip


def plan(of: Description, extra: Sequence[str], appended: Sequence[str] = ()) -> SubmitPlan:
    return of.plan(extra, appended, file="t.sub", now=1_700_000_000)


def told(plan: SubmitPlan) -> list[str]:
    """All that is ever asked of a plan, line by line."""
    needs = plan.needs_cluster_id
    last = plan.for_cluster(77) if needs else plan
    ads = [
        f"{proc}: {name} = {value}" for proc, ad in enumerate(last.procs()) for name, value in long(ad.flat()).items()
    ]
    return [*ads, *plan.warnings, *last.unused(), f"{plan.count} {needs} {plan.late} {plan.job_set}"]


@pytest.mark.parametrize("seed", range(8))
def test_filled_in_it_gives_the_plan_that_it_gives_when_it_is_read(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    (place.where / "inc").write_text("+Included = true\n")
    for _ in range(12):
        lines = chance.sample((*COMMANDS, *MORE), chance.randint(1, 5))
        lines.sort(key=lambda line: line.startswith("queue"))
        of = a_description(place, "\n".join(["executable = job.sh", *lines, ""]))
        for _ in range(5):
            extra = [f"x={chance.choice(VALUES)}", f"y={chance.choice(VALUES)}", 'MY.X="$(x)"']
            appended = [f"dag_node_name={chance.choice('abc')}", f"+P={chance.randint(0, 3)}"]
            answers = []
            for way in (plan, read):
                try:
                    answers.append(told(way(of, extra, appended)))
                except (SubmitError, OSError) as error:
                    answers.append([str(error)])
            assert set(answers[0]) ^ set(answers[1]) == set(), (of.text, extra, appended)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of descriptions that were read as a whole."""
    made: list[str] = []

    def noted(*args: object, **options: object) -> SubmitPlan:
        made.append(str(options["extra"]))
        return read_submit(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(alike, "read_submit", noted)
    return made


USUAL = (
    'executable = job.sh\narguments = "$(n) $(JOB)"\noutput = $(JOB).$(Cluster).out\ntransfer_input_files = $(JOB).in'
)


def test_what_nodes_usually_say_is_filled_in(place: Place, readings: list[str]) -> None:
    of = a_description(place, USUAL)
    for n in range(20):
        ad = plan(of, [f"JOB=n{n}", f"n={n}"], ["dagman_log=/d/nodes.log", f"submit_event_notes=DAG Node: n{n}"])
        assert ad.for_cluster(n).cluster_ad.eval_str("Out") == f"n{n}.{n}.out"
    assert readings == []


def test_a_request_of_its_own_has_a_template_for_each_value(place: Place, readings: list[str]) -> None:
    of = a_description(place, "executable = job.sh\nrequest_cpus = $(n)\n")
    needs = [plan(of, [f"n={n % 2 + 1}"]).cluster_ad.text("Requirements") for n in range(6)]
    assert ["Cpus >= RequestCpus" in text for text in needs] == [False, True] * 3
    assert readings == []


def test_a_value_that_decides_and_differs_each_time_does_not_fill_memory(place: Place, readings: list[str]) -> None:
    of = a_description(place, "executable = job.sh\nrequest_memory = $(n)\n")
    for n in range(TEMPLATES_MAX + 5):
        assert plan(of, [f"n={n + 1}"]).cluster_ad["RequestMemory"] == n + 1
    assert len(of._templates) <= TEMPLATES_MAX
    assert len(readings) == 5


def test_files_are_looked_at_each_time(place: Place, readings: list[str]) -> None:
    of = a_description(place, "executable = job.sh\ntransfer_input_files = in.txt, $(JOB).in\ninclude : inc\n")
    (place.where / "inc").write_text("+A = 1\n")
    small = plan(of, ["JOB=a"]).cluster_ad
    (place.where / "in.txt").write_bytes(b"x" * 5_000_000)
    (place.where / "b.in").write_bytes(b"x" * 5_000_000)
    (place.where / "inc").write_text("+A = 2\n")
    large, own = plan(of, ["JOB=a"]).cluster_ad, plan(of, ["JOB=b"]).cluster_ad
    sizes = [ad.eval_int("TransferInputSizeMB") for ad in (small, large, own)]
    assert sizes == [1, 5, 10]
    assert [ad.eval_int("A") for ad in (small, large, own)] == [1, 2, 2]
    assert readings == []
