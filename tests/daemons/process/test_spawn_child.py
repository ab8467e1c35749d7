from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path

import pytest
import trio

from daemons.process.children import SpawnError, Zygote

ROOT = Path(__file__).parents[3]
HERE = "tests.daemons.process.children"
NAMES = "echo until_orphaned die_at_once leave_orphan leave_stubborn_orphans tell_who_warmed_up write_to_given"
KINDS = {name: f"{HERE}:{name}" for name in NAMES.split()}


@pytest.fixture
async def zygote(nursery: trio.Nursery) -> Zygote:
    zygote = Zygote(KINDS, env={"PYTHONPATH": str(ROOT)})
    await nursery.start(zygote.run)
    return zygote


async def test_a_child_speaks_with_its_owner_and_its_exit_status_is_learnt(zygote: Zygote) -> None:
    child = await zygote.fork("echo", b"hello")
    pid, session, payload, descriptors, ignored = (await child.channel.receive_some(1000)).decode().split(" ", 4)
    assert int(pid) == int(session) == child.pid
    assert payload == "hello"
    assert int(descriptors) <= 6  # standard streams, channel, life pipe, and the listing itself
    assert set(json.loads(ignored)) <= {signal.SIGPIPE, signal.SIGXFSZ}  # as in every process of Python
    await child.channel.send_all(b"abc")
    assert await child.channel.receive_some(100) == b"ABC"
    await child.channel.aclose()
    assert await child.wait() == 7 << 8


async def test_what_children_share_is_learnt_by_their_zygote_before_they_are_forked(zygote: Zygote) -> None:
    child = await zygote.fork("tell_who_warmed_up")
    parent, *warmed_up = map(int, (await child.channel.receive_some(1000)).split())
    assert (parent, set(warmed_up)) == (zygote.pid, {zygote.pid})
    assert await child.wait() == 0
    await child.channel.aclose()


async def test_many_children_at_once_each_have_their_own_channel(zygote: Zygote) -> None:
    seen: set[int] = set()

    async def one(number: int) -> None:
        child = await zygote.fork("echo", str(number).encode())
        words = (await child.channel.receive_some(1000)).decode().split(" ")
        assert words[2] == str(number)
        seen.add(int(words[0]))
        await child.channel.aclose()
        assert await child.wait() == 7 << 8

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert len(seen) == 20


async def test_a_child_that_dies_at_once_is_reported_with_its_signal(zygote: Zygote) -> None:
    for _ in range(5):
        child = await zygote.fork("die_at_once")
        assert await child.wait() == signal.SIGKILL
        await child.channel.aclose()


async def test_a_child_can_be_killed_by_its_owner(zygote: Zygote) -> None:
    child = await zygote.fork("until_orphaned")
    child.kill(signal.SIGTERM)
    assert await child.wait() == signal.SIGTERM
    child.kill(signal.SIGTERM)
    await child.channel.aclose()


async def test_descriptors_travel_with_the_request(zygote: Zygote) -> None:
    readable, writable = os.pipe()
    child = await zygote.fork("write_to_given", b"through the pipe", [writable])
    os.close(writable)
    await child.wait()
    await child.channel.aclose()
    assert os.read(readable, 100) == b"through the pipe"
    os.close(readable)


async def test_when_the_zygote_dies_its_children_live_and_the_next_one_forks(zygote: Zygote) -> None:
    old, first_zygote = await zygote.fork("echo", b"old"), zygote.pid
    await old.channel.receive_some(1000)
    os.kill(zygote.pid, signal.SIGKILL)
    new = await zygote.fork("echo", b"new")
    assert zygote.pid != first_zygote
    await new.channel.receive_some(1000)
    await old.channel.send_all(b"still there")
    assert await old.channel.receive_some(100) == b"STILL THERE"
    await old.channel.aclose()
    assert await old.wait() == 7 << 8
    await old.channel.aclose()
    await new.channel.aclose()
    assert await new.wait() == 7 << 8


async def test_a_fork_asked_of_a_zygote_that_dies_over_it_is_asked_of_the_next(zygote: Zygote) -> None:
    os.kill(zygote.pid, signal.SIGSTOP)
    stopped = zygote.pid
    results: list[int] = []

    async def ask() -> None:
        child = await zygote.fork("echo", b"patient")
        await child.channel.receive_some(1000)
        results.append(child.pid)
        await child.channel.aclose()
        await child.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not zygote._asked:
            await trio.sleep(0.01)
        os.kill(stopped, signal.SIGKILL)
    assert len(results) == 1


async def test_children_see_the_end_of_their_life_pipe_when_the_owner_stops() -> None:
    zygote = Zygote(KINDS, env={"PYTHONPATH": str(ROOT)})
    async with trio.open_nursery() as nursery:
        await nursery.start(zygote.run)
        child = await zygote.fork("until_orphaned")
        assert await child.channel.receive_some(1) == b"x"
        nursery.cancel_scope.cancel()
    with trio.fail_after(60):
        assert await child.channel.receive_some(1) == b""  # it is gone
    await child.channel.aclose()
    assert not Path(f"/proc/{zygote.pid}").exists()  # it has reaped its child and left, and was collected


async def test_orphans_of_children_are_reaped_by_the_zygote(zygote: Zygote) -> None:
    child = await zygote.fork("leave_orphan")
    orphan = int(await child.channel.receive_some(100))
    await child.wait()
    await child.channel.aclose()
    with trio.fail_after(60):
        while Path(f"/proc/{orphan}").exists():
            await trio.sleep(0.05)


async def test_strays_are_ended_and_children_are_not(zygote: Zygote) -> None:
    living = await zygote.fork("echo", b"living")
    await living.channel.receive_some(1000)
    child = await zygote.fork("leave_stubborn_orphans")
    orphans = [int(pid) for pid in (await child.channel.receive_some(100)).split()]
    await child.wait()
    await child.channel.aclose()
    assert await zygote.kill_strays() == 0
    with trio.fail_after(60):
        while any(Path(f"/proc/{pid}").exists() for pid in orphans):
            await trio.sleep(0.05)
    await living.channel.send_all(b"there")
    assert await living.channel.receive_some(100) == b"THERE"
    await living.channel.aclose()
    await living.wait()
    await living.channel.aclose()


async def test_a_request_that_is_too_large_is_refused(zygote: Zygote) -> None:
    with pytest.raises(SpawnError, match="too much"):
        await zygote.fork("echo", bytes(1_000_000))


async def test_a_zygote_that_cannot_start_says_so() -> None:
    zygote = Zygote({"broken": "no.such.module:main"})
    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            await nursery.start(zygote.run)
    assert caught.group_contains(SpawnError, match="could not start")


async def test_a_zygote_that_cannot_be_executed_for_now_is_executed_when_it_can_be(zygote: Zygote) -> None:
    async def said() -> str:
        try:
            child = await zygote.fork("die_at_once")
        except SpawnError as error:
            return str(error)
        await child.channel.aclose()
        return "a child"

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with trio.fail_after(60):
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so, and nothing more can be opened
        try:
            os.kill(zygote.pid, signal.SIGKILL)
            while "the zygote cannot be executed: Too many open files" not in await said():
                await trio.lowlevel.checkpoint()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        while await said() != "a child":
            await trio.sleep(0.01)


async def test_children_outlive_one_zygote_after_another(zygote: Zygote) -> None:
    children = [await zygote.fork("until_orphaned")]
    for _ in range(3):
        os.kill(zygote.pid, signal.SIGKILL)
        children.append(await zygote.fork("until_orphaned"))
    for child in children:
        assert child.alive
        child.kill()
        with trio.fail_after(60):
            assert await child.wait() == signal.SIGKILL
        await child.channel.aclose()
