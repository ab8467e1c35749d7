"""Connections that are cut in the middle of a transfer: what has come is not sent again, and what arrives is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from pool.jobs.vocabulary.endings import Ending

from .bench import Bench, bench

YES = {"ShouldTransferFiles": "YES"}
SIZE = 6_000_000


@dataclass
class Cutter:
    """A unix socket in front of the agent's own, which hangs up whenever so many bytes have gone through it."""

    path: str
    behind: str
    limits: list[int]
    moved: list[int] = field(default_factory=list)

    async def serve(self, *, task_status: Any) -> None:
        listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        with listener:
            await listener.bind(self.path)
            os.chmod(self.path, 0o666)
            listener.listen()
            await self._accept(listener, task_status)

    async def _accept(self, listener: Any, task_status: Any) -> None:
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                near, _ = await listener.accept()
                nursery.start_soon(self._carry, near)

    async def _carry(self, near: Any) -> None:
        far = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        await far.connect(self.behind)
        limit = self.limits.pop(0) if self.limits else 1 << 60
        self.moved.append(0)
        number = len(self.moved) - 1

        async def copy(source: Any, target: Any, scope: trio.CancelScope) -> None:
            while data := await source.recv(65536):
                self.moved[number] += len(data)
                if self.moved[number] > limit:
                    break
                while data:
                    data = data[await target.send(data) :]
            scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(copy, near, far, nursery.cancel_scope)
                nursery.start_soon(copy, far, near, nursery.cancel_scope)
        except* OSError:
            pass
        finally:
            near.close()
            far.close()


@asynccontextmanager
async def cut_bench(*limits: int) -> AsyncIterator[tuple[Bench, Cutter]]:
    """A bench whose agent is reached through a cutter."""
    async with bench(agent=True) as b:
        behind = str(b.root / "run" / "agents" / "agent.sock")
        cutter = Cutter(str(b.root / "cut.sock"), behind, list(limits))
        await b.nursery.start(lambda task_status: cutter.serve(task_status=task_status))
        b.agent_address = cutter.path
        yield b, cutter


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def until_ended(b: Bench, activation: str) -> Any:
    end = await b.ended(activation)
    assert end.ending is Ending.EXITED, (end.reason, end.ad)
    return end


async def test_input_goes_on_where_it_was_cut() -> None:
    async with cut_bench(1_000_000, 2_500_000) as (b, cutter):
        (b.iwd / "large").write_bytes(os.urandom(SIZE))
        (b.iwd / "small").write_text("small\n")
        end = await until_ended(
            b, await b.run(b.job_ad("sha256sum large; cat small", TransferInput="large, small", **YES), files=True)
        )
        assert (b.iwd / "out").read_text() == f"{digest(b.iwd / 'large')}  large\nsmall\n"
        assert len(cutter.moved) >= 3
        assert sum(cutter.moved) < SIZE + 2_000_000
        assert end.ad.eval_float("BytesRecvd") == SIZE + 6


async def test_output_goes_on_where_it_was_cut() -> None:
    async with cut_bench(2_000_000, 2_500_000) as (b, cutter):
        await until_ended(
            b, await b.run(b.job_ad(f"head -c {SIZE} /dev/urandom > large; sha256sum large; head -c 500000 large > less", **YES), files=True)
        )  # fmt: skip
        assert (b.iwd / "out").read_text() == f"{digest(b.iwd / 'large')}  large\n"
        assert (b.iwd / "less").stat().st_size == 500_000
        assert len(cutter.moved) >= 3
        assert sum(cutter.moved) < SIZE + 500_000 + 2_000_000
        assert not [name for name in os.listdir(b.iwd) if name.endswith(".part")]


@pytest.mark.slow
async def test_many_small_files_arrive_whole_through_cuts() -> None:
    async with cut_bench(700_000, 1_900_000, 900_000) as (b, cutter):
        (b.iwd / "in").mkdir()
        for number in range(800):
            (b.iwd / "in" / f"f{number}").write_bytes(f"{number} ".encode() * (200 + number % 7 * 500))
        (b.iwd / "in" / "empty").touch()
        job = b.job_ad("cp -r in out1", TransferInput="in", TransferOutput="out1", **YES)
        await until_ended(b, await b.run(job, files=True))
        names = sorted(os.listdir(b.iwd / "in"))
        assert sorted(os.listdir(b.iwd / "out1")) == names
        assert all((b.iwd / "in" / name).read_bytes() == (b.iwd / "out1" / name).read_bytes() for name in names)
        assert len(cutter.moved) >= 3
