from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from daemons.agent.inputs import Inputs
from daemons.agent.outputs import Outputs
from protocol.files.file_stream import send_files
from protocol.messages.agent import (
    AppendEvents,
    CloseTransfer,
    FetchInput,
    FileEntry,
    LogEvent,
    OutputStored,
    PushOutput,
)
from protocol.rpc import endpoints
from protocol.rpc.endpoints import RemoteError
from tests.daemons.starter.bench import Bench, bench


def _ad(b: Bench, **attributes: object):  # type: ignore[no-untyped-def]
    return b.job_ad("true", ShouldTransferFiles="YES", **attributes)


async def _open(b: Bench, **attributes: object) -> str:
    b._jobs["activation"] = _ad(b, **attributes)
    return await b.open_transfer("activation")


async def test_events_are_written_as_the_user(tmp_path: Path) -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        log = b.iwd / "job.log"
        await b.agent.call(AppendEvents(events=[LogEvent(log=str(log), text="000 ...\n")]))
        assert log.read_text() == "000 ...\n"
        assert log.stat().st_uid == b.iwd.stat().st_uid
        with pytest.raises(RemoteError, match="No such file") as caught:
            await b.agent.call(AppendEvents(events=[LogEvent(log=str(b.iwd / "no/log"), text="x")]))
        assert caught.value.code == "UserError"


@pytest.mark.parametrize("name", ["pipe", "null\0character", "."])
async def test_a_log_that_can_be_no_file_is_its_users_fault(name: str) -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        os.mkfifo(b.iwd / "pipe")
        (b.iwd / "pipe").chmod(0o666)
        with pytest.raises(RemoteError, match="cannot write the event log") as caught:
            await b.agent.call(AppendEvents(events=[LogEvent(log=f"{b.iwd}/{name}", text="x")]))
        assert caught.value.code == "UserError"


@pytest.mark.skipif(os.getuid() != 0, reason="the agent is this account anyway")
async def test_an_agent_cannot_touch_what_its_user_cannot() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        assert b.agent_child is not None
        status = Path(f"/proc/{b.agent_child.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        assert set(fields["Uid"].split()) == {str(b.iwd.stat().st_uid)}
        assert "0" not in fields["Groups"].split()
        assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
        with pytest.raises(RemoteError, match="Permission denied"):
            await b.agent.call(AppendEvents(events=[LogEvent(log=str(b.root / "log"), text="x")]))


async def test_p10_without_the_ticket_of_an_open_activation_no_file_moves() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        address = await _open(b)
        with pytest.raises(Exception, match="ticket"):
            async with endpoints.connected(address, security=b.security.with_ticket("wrong")):
                pass
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            with pytest.raises(RemoteError, match="no files move"):
                await peer.call(FetchInput(activation="another"))
            with pytest.raises(RemoteError):
                await peer.call(AppendEvents(events=[]))
            await b.agent.call(CloseTransfer(activation="activation"))
            with pytest.raises(RemoteError, match="needs READ"):
                await peer.call(FetchInput(activation="activation"))


@pytest.mark.parametrize(
    "entry",
    [
        FileEntry(name="../outside"),
        FileEntry(name="/etc/outside"),
        FileEntry(name="sub/file"),
        FileEntry(name=".job.ad"),
        FileEntry(name="x", kind="device"),
        FileEntry(name="link", kind="link", target="/etc/passwd"),
    ],
)
async def test_p9_a_starter_cannot_send_what_the_job_has_not(entry: FileEntry) -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b)
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            with pytest.raises(RemoteError):
                await peer.call(PushOutput(activation="activation", files=[entry]))
        assert os.listdir(b.iwd) == []


async def test_nothing_is_written_through_a_link_that_was_sent() -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b, TransferOutput="d")
        files = [
            FileEntry(name="d", kind="dir", mode=0o755),
            FileEntry(name="d/a", kind="link", target="b"),
            FileEntry(name="d/b", kind="dir", mode=0o755),
            FileEntry(name="d/a/x", size=1),
        ]
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            await peer.call(PushOutput(activation="activation", files=files))
            await send_files(peer, files, lambda _: os.open("/dev/zero", os.O_RDONLY))
            stored = await peer.call(OutputStored(activation="activation"))
        assert stored.trouble is not None or not (b.iwd / "d" / "b" / "x").exists()


async def test_a_push_that_breaks_off_leaves_nothing() -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b)
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            await peer.call(PushOutput(activation="activation", files=[FileEntry(name="half", size=10)]))
            await peer.bulk.send(b"12345")
            with trio.fail_after(60):
                while not os.listdir(b.iwd):
                    await trio.sleep(0.02)
        with trio.fail_after(60):
            while os.listdir(b.iwd):
                await trio.sleep(0.02)


async def test_the_socket_is_the_users_alone_and_the_agent_ends_with_its_schedd() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        assert b.agent_child is not None
        path = b.root / "run" / "agents" / "agent.sock"
        mode = stat.S_IMODE(path.stat().st_mode)
        assert (path.stat().st_uid, mode) == (b.iwd.stat().st_uid, 0o600 if os.getuid() == 0 else 0o666)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o711
        await b.agent.aclose()
        with trio.fail_after(60):
            assert await b.agent_child.wait() == 0


async def test_what_nobody_foresaw_ends_one_transfer_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise KeyError("nobody foresaw it")

    said: list[str] = []
    peer: Any = SimpleNamespace(abort=said.append)
    transfer: Any = SimpleNamespace(peer=peer, run_sync=None)
    given_back: list[object] = []
    turns: Any = SimpleNamespace(give_back=given_back.append)
    none_open: Any = None
    activation: Any = SimpleNamespace(arrived=trio.Event(), came={}, stored=None, kept=None)
    push: Any = SimpleNamespace(placement=SimpleNamespace(abandon=lambda: None), staging="")
    monkeypatch.setattr("daemons.agent.inputs.send_files", fail)
    monkeypatch.setattr(Outputs, "_take", fail)
    async with trio.open_nursery() as nursery:  # as the agent's own, which serves all jobs of its user
        inputs = Inputs(none_open, turns, nursery, host="here")
        outputs = Outputs(none_open, turns, nursery, host="here")
        nursery.start_soon(inputs._send, transfer, [], os.open, {}, False)
        nursery.start_soon(outputs._receive, peer, activation, trio.CancelScope(), push, transfer)
    assert said == ["the file agent failed: KeyError('nobody foresaw it')"]
    assert "the file agent failed" in activation.stored.trouble.reason
    assert activation.arrived.is_set()
    assert given_back == [transfer, transfer]
