"""Filling in a template gives the ad that all steps would make."""

from __future__ import annotations

import random

import pytest

from pool.base.errors import SubmitError
from pool.submit.template import JobTemplate
from tests.pool.submit.build import Place, long

VALUES = (
    *("a", "b/c", "/abs", "x y", '"q"', "it's", "", "d1", "1", "007", "-3", "1.5", "2GB", "a,b", "http://x/y"),
    *("/dev/null", "true", "$(z)", "a  b", "in.txt", "data1.dat", "x=y", "%s", "é", "MY.Foo > 3", "a;b", "{1}"),
)
FIRST = ("ok", "1", "d1", "yes")
COMMANDS = (
    *("arguments=$(x)", 'arguments="$(x) y"', "arguments=$(x)$(y)", "output=$(x)", "error=e.$(x)", "log=$(x).log"),
    *("log=l/$(y)", 'environment="A=$(x)"', "env=A=$(x)", "transfer_input_files=$(x),in.txt", "priority=$(x)"),
    *("transfer_output_files=$(x)", "+Foo=$(x)", '+Bar="$(x)"', "batch_name=$(x)", "description=$(x) $(y)"),
    *("keep_claim_idle=$(x)", "log_xml=$(x)", "initialdir=$(x)", "request_memory=$(x)", "hold=$(x)", "rank=$(x)"),
    *('requirements=Foo=="$(x)"', "input=$(x)", "arguments=$F(x) $INT(Process,%03d)", "output=o.$SUBSTR(x,0,2)"),
    *('transfer_output_remaps="o=$(x)"', "email_attributes=$(x)", "priority=$(Process)*2", "+Foo=$(Process)*2"),
    *("arguments=$CHOICE(Step,$(x),b,c)", "periodic_hold=$(x)", "container_image=$(x)", "cron_minute=$(x)"),
    *("executable=$(x)", "job_lease_duration=$(x)", "concurrency_limits=$(x)", "output=$(x:dflt)"),
    *("arguments=$$(Attr$(x))", "arguments=$(ItemIndex) $(Row) $(JobId)", "output=$(Cluster).$(ProcId)"),
)


def outcome(place: Place, text: str) -> tuple[list[dict[str, str]], bool]:
    try:
        return [long(ad) for ad in place.ads(text)], True
    except SubmitError:
        return [], False


@pytest.mark.parametrize("seed", range(6))
def test_filled_jobs_equal_made_jobs(place: Place, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        commands = "\n".join(chance.sample(COMMANDS, chance.randint(1, 4)))
        rows = "\n".join(f"{chance.choice(VALUES)}\x1f{chance.choice(VALUES)}" for _ in range(4))
        count = chance.choice(["", 2])
        text = f"executable = job.sh\n{commands}\nqueue {count} x,y from (\n{chance.choice(FIRST)}\x1f1\n{rows}\n)\n"
        filled = outcome(place, text)
        with monkeypatch.context() as patch:
            patch.setattr(JobTemplate, "fill", lambda self, row, proc: None)
            made = outcome(place, text)
        assert filled == made, text


def test_plain_jobs_are_filled_in(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    real = JobTemplate.fill

    def fill(self: JobTemplate, row: object, proc: int) -> object:
        nonlocal made
        ad = real(self, row, proc)  # type: ignore[arg-type]
        made += ad is None
        return ad

    monkeypatch.setattr(JobTemplate, "fill", fill)
    text = "executable=job.sh\narguments=$(Process)\noutput=o.$INT(Process,%04d)\npriority=$(Step)\nqueue 50\n"
    ads = place.ads(text)
    assert made == 0
    assert ads[49]["Args"] == "49"
    assert ads[49]["Out"] == "o.0049"
    assert ads[49]["JobPrio"] == 49


def test_a_request_that_changes_is_judged_for_each_job(place: Place) -> None:
    one, two = place.ads("executable=job.sh\nrequest_cpus=$(n)\nqueue n in (1 2)\n")
    assert "TARGET.Cpus" not in one.text("Requirements")
    assert "TARGET.Cpus >= RequestCpus" in two.text("Requirements")


def test_sizes_follow_the_files_of_each_job(place: Place) -> None:
    (place.where / "big").write_bytes(b"x" * 5_000_000)
    small, big = place.ads("executable=job.sh\ntransfer_input_files=$(f)\nqueue f in (in.txt big)\n")
    assert small["TransferInputSizeMB"] == 1
    assert big["TransferInputSizeMB"] == 5


def test_proc_ads_hold_only_what_differs(place: Place) -> None:
    plan = place.plan("executable=job.sh\narguments=$(Process)\nqueue 3\n")
    zero, one, _ = plan.procs()
    assert {name for name, _ in zero.own()} == {"ProcId", "JobStatus"}
    assert {name for name, _ in one.own()} == {"ProcId", "JobStatus", "Args"}
    assert one.parent is plan.cluster_ad
    assert plan.cluster_ad["Args"] == "0"


def test_fractions_are_each_jobs_own(place: Place) -> None:
    ads = place.ads("executable=job.sh\n+Half=$(Process).5\n+Big=$(Process)e3\nqueue 3\n")
    assert [(ad["Half"], ad["Big"]) for ad in ads] == [(0.5, 0.0), (1.5, 1000.0), (2.5, 2000.0)]
