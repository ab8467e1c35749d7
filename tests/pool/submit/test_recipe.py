"""A recipe makes the same jobs as the description that it is of, from any of them on."""

from __future__ import annotations

import json
import random

import pytest

from pool.base.errors import SubmitError
from pool.classad import ClassAd
from pool.submit.recipe import SIZES, made_later, plan_of, recipe
from tests.pool.submit.build import Place, a_config

PLAIN = "executable = job.sh\n"

SAME = (
    "arguments = $(Process) of $(Cluster)\nqueue 5\n",
    "arguments = $(x) $(Step) $(Row)\nqueue 2 x in (a b c)\n",
    "arguments = $(x)-$(y)\noutput = $Fn(x).$(y)\nqueue x,y from (\n a.txt 1\n b.txt 2\n\n c.txt 3\n)\n",
    "arguments = $(x)\nqueue x in [1:3] (a b c d)\n",
    'environment = "A=$(Process) B=$ENV(HOME)"\nqueue 3\n',
    "request_memory = $(x)\nrequest_cpus = 1 + $(Process)\nqueue x in (10 20 30)\n",
    "initialdir = dir$(Process)\ntransfer_input_files = in.$(Process)\nskip_filechecks = true\nqueue 2\n",
    "requirements = $(x)\nqueue x from (\n Memory > 10\n Cpus > 2\n)\n",
    '+Mine = "$(x)"\nMY.Other = $(Process) * 2\nqueue x in (p q)\n',
    "foo = $(bar)\nbar = $(Item).$(ProcId)\narguments = $(foo)\nqueue in (u v)\n",
    "getenv = HOME\narguments = $(Process)\nqueue 2\n",
    "log = l.$(Process)\nhold = true\nqueue 2\n",
)


def flat(ad: ClassAd) -> dict[str, str]:
    return {name: ad.text(name) for name in ad if name not in SIZES}


@pytest.mark.parametrize("text", SAME)
@pytest.mark.parametrize("start", [0, 1])
def test_it_makes_the_same_jobs(place: Place, text: str, start: int) -> None:
    for number in range(3):
        (place.where / f"dir{number}").mkdir(exist_ok=True)
    plan = place.plan(PLAIN + text).for_cluster(77)
    wanted = [flat(ad.flat()) for ad in plan.procs()][start:]
    again = plan_of(recipe(plan), config=a_config(), cluster=77, chance=random.Random(1))
    assert again.count == plan.count
    made = []
    for own in made_later(again, start):
        own.parent = plan.cluster_ad
        made.append(flat(own.flat()))
    assert made == wanted


def test_jobs_made_later_have_the_sizes_that_were_found_at_submit(place: Place) -> None:
    (place.where / "big").write_bytes(b"x" * 3_000_000)
    plan = place.plan(PLAIN + "transfer_input_files = big, $(x)\nqueue x in (a.txt b.txt)\n")
    again = plan_of(recipe(plan), config=a_config(), cluster=1, chance=random.Random(1))
    for own in made_later(again, 0):
        assert not any(name in own for name in SIZES)
    assert plan.cluster_ad.eval_int("TransferInputSizeMB", 0) >= 3


def test_only_what_the_jobs_ask_for_of_the_environment_is_kept(place: Place) -> None:
    plan = place.plan(PLAIN + "arguments = $ENV(HOME)\nqueue 2\n", env={"HOME": "/h", "SECRET": "s"})
    assert json.loads(recipe(plan))["env"] == {"HOME": "/h"}


def test_a_million_jobs_are_a_short_text_and_the_last_of_them_is_there_at_once(place: Place) -> None:
    plan = place.plan(PLAIN + "arguments = $(Process)\nqueue 1000000\n")
    text = recipe(plan)
    assert len(text) < 1000
    again = plan_of(text, config=a_config(), cluster=1, chance=random.Random(1))
    assert [own["Args"] for own in made_later(again, 999_998)] == ["999998", "999999"]


def test_several_queue_statements_make_no_recipe(place: Place) -> None:
    plan = place.plan(PLAIN + "max_materialize = 1\nqueue\nqueue\n")
    with pytest.raises(SubmitError, match="line 4"):
        recipe(plan)
