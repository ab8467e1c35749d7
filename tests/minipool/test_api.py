"""The Python API against a real pool: every example of docs/api.md, and what the examples do not say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

import minipool
from minipool.client.model import id_of
from minipool.client.session import Session
from pool.base.errors import PeerError, SubmitError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import load_config
from protocol.messages.collector import AdUpdate, UpdateAds
from protocol.rpc.blocking import connect
from tests.own_attributes import own
from tests.whole.real_pool import RealPool

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
WAIT_S = 240


def test_every_example_of_the_documentation_runs(here: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(examples) > 5
    names: dict[str, object] = {"__name__": "examples"}
    for number, example in enumerate(examples):
        exec(compile(example, f"api.md example {number + 1}", "exec"), names)


def test_an_error_leaves_the_async_pool_as_what_it_is(here: Path) -> None:
    async def main() -> None:
        async with minipool.open_pool() as pool:
            await pool.submit("universe = planet\nexecutable = /bin/true\n")

    with pytest.raises(minipool.SubmitError, match="planet"):
        trio.run(main)


def test_a_description_in_a_file_is_read_with_its_own_place_in_errors(here: Path) -> None:
    (here / "bad.sub").write_text("executable = /bin/true\nuniverse = planet\nqueue\n")
    with minipool.connect() as pool, pytest.raises(minipool.SubmitError, match=r"bad\.sub:2"):
        pool.submit(minipool.Submit.read("bad.sub"))
    with pytest.raises(minipool.SubmitError, match=r"nosuch\.sub"):
        minipool.Submit.read("nosuch.sub")


def test_no_pool_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    monkeypatch.setenv("_CONDOR_COLLECTOR_HOST", "127.0.0.1:1")
    (tmp_path / "down" / "run").mkdir(parents=True)
    with pytest.raises(minipool.PeerError):
        minipool.connect(str(tmp_path / "down"))
    with pytest.raises(minipool.PoolError, match="is not a pool's directory"):
        minipool.connect(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("given", "text", "queue"),
    [
        (minipool.Submit("a = 1"), "a = 1\n", None),
        (minipool.Submit({"a": 1, "b": True}), "a = 1\nb = true\n", None),
        (minipool.Submit("a = 1\n", b=2, queue=3), "a = 1\nb = 2\n", "3"),
        (minipool.Submit(arguments=["-c", "a 'b' \"c\""]), "arguments = \"-c 'a ''b'' \"\"c\"\"'\"\n", None),
        (minipool.Submit(environment={"A": 1, "B": "x y"}), "environment = \"A=1 'B=x y'\"\n", None),
        (minipool.Submit(transfer_input_files=["a", "b"]), "transfer_input_files = a, b\n", None),
        (minipool.Submit(a=1, items=[{"x": 1}, {"x": 2}]), "a = 1\nqueue x from (\n1\n2\n)\n", None),
    ],
)
def test_a_description_may_be_given_in_many_ways(given: minipool.Submit, text: str, queue: str | None) -> None:
    assert (given.text, given.queue) == (text, queue)


@pytest.mark.parametrize(
    "wrong",
    [
        {"items": [{"a": 1}, {"b": 1}]},
        {"items": [{"a": 1}], "queue": 2},
        {"items": [{"a": "x\ny"}]},
        {"items": [{"a": "x\x85y"}]},
    ],
)
def test_items_that_do_not_fit_together_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(minipool.SubmitError):
        minipool.Submit(executable="/bin/true", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["#1", ")", ") rest", "", "x y", "a, b", "1"])
@pytest.mark.parametrize("beside", [{}, {"m": ""}, {"m": "z"}])
def test_an_item_is_a_job_whatever_its_values_look_like(value: str, beside: dict[str, str]) -> None:
    items = [{"n": "first", **beside}, {"n": value, **beside}]
    described = minipool.Submit(executable="/bin/true", arguments="[$(n)][$(m:)]", items=items)
    plan = described.plan(Session(load_config([], environ={})))
    end = f"[{beside.get('m', '')}]"
    assert [ad.eval_str("Args") for ad in plan.procs()] == [f"[first]{end}", f"[{value}]{end}"]


@pytest.mark.parametrize(("job", "text"), [("12.3", "12.3"), (12, "12"), ((12, 3), "12.3"), (JobId(12, 3), "12.3")])
def test_jobs_may_be_named_in_many_ways(job: object, text: str) -> None:
    assert str(id_of(job)) == text


def test_the_package_offers_what_it_lists_and_imports_nothing_before() -> None:
    import subprocess
    import sys

    assert all(hasattr(minipool, name) for name in minipool.__all__)
    with pytest.raises(AttributeError, match="nosuch"):
        minipool.nosuch  # type: ignore[attr-defined]
    code = "import sys, minipool; print('pool.classad' in sys.modules, 'trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("value", ["a\nqueue 1000", "a\rb", "a\\", ["a", "b\nc"], {"A": "x\ny"}])
def test_a_value_is_one_value_and_no_further_command(value: object) -> None:
    with pytest.raises(SubmitError, match="the value of output cannot"):
        minipool.Submit(executable="/bin/true", output=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["output = x\nerror", "queue", "a b", "#a", "a=b", "x @=end", ""])
def test_what_is_no_command_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(SubmitError, match="is no submit command"):
        minipool.Submit({"executable": "/bin/true", name: "1"})


def test_expressions_of_a_program_know_the_time_and_throw_dice() -> None:
    ask = "import minipool; print(minipool.expr('time()').eval(), minipool.expr('random(1 << 30)').eval())"
    seen = [subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True) for _ in range(2)]
    (first, one), (second, other) = (done.stdout.split() for done in seen)
    assert abs(time.time() - int(first)) < WAIT_S
    assert int(first) <= int(second)
    assert one != other


def advertise(pool: RealPool, **marks: int) -> None:
    """Give the collector ads of these names, as soon as it takes them."""
    updates = [
        AdUpdate(ad=ClassAd({"MyType": "Generic", "Name": name, **own(Mark=mark)})) for name, mark in marks.items()
    ]

    def taken() -> bool:
        try:
            with connect(str(pool.run_dir / "collector.sock"), pool._security()) as peer:
                peer.call(UpdateAds(updates=updates), timeout=WAIT_S)
        except PeerError:
            return False
        return True

    pool.until(taken, "a collector that takes ads")


def test_watches_of_ads_go_on_when_the_collector_restarts(running: RealPool, here: Path) -> None:
    program = Path(sys.executable).with_name("condor_status")
    command = [str(program), "-subsystem", "generic", "-watch", "-af", "Name", "Mark"]
    out = here / "watched"
    advertise(running, same=1, other=1)
    with out.open("wb") as file, minipool.connect() as pool:
        tool = subprocess.Popen(command, stdout=file, env=running.env())
        try:
            told = pool.watch_ads("Generic", projection=["Name", "Mark"], timeout=WAIT_S)
            assert {next(told).name for _ in range(2)} == {"same", "other"}
            running.until(lambda: sorted(out.read_text().split("\n")) == ["", "other 1", "same 1"], "the tool's table")
            running.restart_of("collector")
            advertise(running, same=1, other=2)
            assert repr(next(told)) == "AdNews(Generic other, changed)"
            advertise(running, last=1)
            assert repr(next(told)) == "AdNews(Generic last, new)"
            running.until(lambda: "last 1\n" in out.read_text(), "the tool's last line")
            assert [line.split()[1:] for line in out.read_text().splitlines()[2:]] == [
                ["changed", "other", "2"],
                ["new", "last", "1"],
            ]
        finally:
            tool.terminate()
            tool.wait()
