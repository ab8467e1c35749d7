"""Users of a queue: who there is, and who may submit."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from pool.base.errors import PoolError
from protocol.messages.schedd import QueryUsers, SetUsers, UserAction
from protocol.rpc.endpoints import RemoteError
from tests.daemons.schedd.bench import USER, Bench, a_bench, a_job

Clock = trio.testing.MockClock


async def users(bench: Bench, *names: str) -> dict[str, tuple[object, object]]:
    """Who there is: whether enabled, and how many idle jobs."""
    async with bench.connected() as peer:
        ads = (await peer.call(QueryUsers(users=list(names)))).ads
    return {ad.eval_str("OsUser", ""): (ad["Enabled"], ad["NumIdle"]) for ad in ads}


async def change(bench: Bench, action: UserAction, *names: str, by: str = "root", reason: str = "") -> None:
    async with bench.connected(by) as peer:
        await peer.call(SetUsers(users=list(names), action=action, reason=reason))


async def test_users_are_those_with_jobs_or_settings(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        assert await users(bench) == {}
        await bench.submit(a_job(), {"Args": "0"}, {"Args": "1"})
        await change(bench, UserAction.ADD, "bob@pool.test")
        assert await users(bench) == {USER: (True, 2), "bob": (True, 0)}
        assert await users(bench, "bob") == {"bob": (True, 0)}
        await change(bench, UserAction.REMOVE, "bob")
        with pytest.raises(RemoteError, match="has jobs"):
            await change(bench, UserAction.REMOVE, USER)
        assert await users(bench) == {USER: (True, 2)}


async def test_a_disabled_user_cannot_submit_not_even_after_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await change(bench, UserAction.DISABLE, USER, reason="talk to admin")
        await bench.restart()
        with pytest.raises(RemoteError, match="disabled: talk to admin"):
            await bench.submit(a_job())
        assert await bench.ads() == {}
        await change(bench, UserAction.ENABLE, USER)
        await bench.submit(a_job())


async def test_users_are_set_by_those_who_may_manage_all_jobs(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        with pytest.raises(RemoteError, match="may not change users"):
            await change(bench, UserAction.DISABLE, "bob", by=USER)


async def projects(bench: Bench, *names: str) -> dict[str, object]:
    async with bench.connected() as peer:
        ads = (await peer.call(QueryUsers(users=list(names), projects=True))).ads
    return {ad.eval_str("Name", ""): ad["NumIdle"] for ad in ads}


async def test_projects_are_those_of_jobs_and_those_that_were_added(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(ProjectName="sky"), {"Args": "0"}, {"Args": "1"})
        await bench.submit(a_job(), {"ProjectName": "sea"}, {"Args": "1"})
        async with bench.connected("root") as peer:
            await peer.call(SetUsers(users=["land"], action=UserAction.ADD, projects=True))
        await bench.restart()
        assert await projects(bench) == {"land": 0, "sea": 1, "sky": 2}
        assert await projects(bench, "sky") == {"sky": 2}
        assert set(await users(bench)) == {USER}


async def test_attributes_of_users_and_projects_are_set_and_kept(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.connected("root") as peer:
            edit = SetUsers(users=["bob"], action=UserAction.EDIT, attributes={"Group": '"x"', "Twice": "2 * 21"})
            await peer.call(edit)
            for name, text in (
                ("User", '"eve"'),
                ("NumIdle", "7"),
                ("MaxJobsRunning", "3"),
                ("A-B", "1"),
                ("A", "1 +"),
            ):
                with pytest.raises(RemoteError, match=name):
                    await peer.call(SetUsers(users=["bob"], action=UserAction.EDIT, attributes={name: text}))
        await bench.restart()
        async with bench.connected() as peer:
            (ad,) = (await peer.call(QueryUsers(users=["bob"]))).ads
        assert (ad["Group"], ad.eval("Twice"), ad["NumIdle"]) == ("x", 42, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"bob": {"disabled": "x"', r"users\.json cannot be read: .*line 1 column"),
        ('["bob"]', r"users\.json has no map but list \"\['bob'\]\" \(expected JSON as the schedd writes it"),
        ('{"bob": 7}', r"users\.json has of 'bob' no map of texts but '7'"),
        ('{"bob": {"disabled": 1}}', r"users\.json has of 'bob' no map of texts"),
    ],
)
async def test_a_damaged_file_of_users_is_named_with_its_place(
    tmp_path: Path, autojump_clock: Clock, text: str, said: str
) -> None:
    (tmp_path / "spool").mkdir(parents=True, exist_ok=True)
    (tmp_path / "spool" / "users.json").write_text(text)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with a_bench(tmp_path):
            raise AssertionError("the schedd has started")
    assert raised.group_contains(PoolError, match=said)
