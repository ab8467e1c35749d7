"""What an execute host sends back stays where the job's output goes: no link that it sends leads its files elsewhere."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from daemons.agent import trusted_path
from daemons.agent.trusted_path import Untrusted, check_unnamed
from pool.base.errors import PeerError
from protocol.files.file_stream import send_files
from protocol.messages.agent import FetchInput, FileEntry, OutputStored, PushOutput
from protocol.rpc import endpoints
from protocol.rpc.endpoints import RemoteError
from tests.daemons.starter.bench import Bench, bench

SECRET = "the owner's alone"


def _dir(name: str) -> FileEntry:
    return FileEntry(name=name, kind="dir", mode=0o755)


def _link(name: str, target: str) -> FileEntry:
    return FileEntry(name=name, kind="link", target=target)


OUT_BY_LINKS = [
    _dir("d"),
    _dir("d/a"),
    _dir("d/a/b"),
    _link("d/a/b/up", "../.."),  # is d
    _link("d/a/b/out", "up/../outside"),  # by its letters d/a/b/outside; in truth beside d
]
THROUGH_A_LINK = [
    _dir("d"),
    _dir("d/a"),
    _dir("d/a/b"),
    _link("d/a/b/up", "../.."),
    _link("d/a/b/up/out", "../outside"),  # by its letters d/a/b/outside; in truth beside d
]


async def _push(b: Bench, peer: endpoints.Peer, files: list[FileEntry], **more: bool) -> bool:
    """Whether the file agent has taken all of it."""
    try:
        await peer.call(PushOutput(activation="activation", files=files, **more))
        await send_files(peer, files, lambda _: os.open("/dev/zero", os.O_RDONLY))
        return (await peer.call(OutputStored(activation="activation"))).trouble is None
    except (RemoteError, PeerError):
        return False


async def _open(b: Bench, *, spool: bool = False, **attributes: object) -> str:
    outside = b.iwd / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    os.chown(outside, b.iwd.stat().st_uid, -1)
    b._jobs["activation"] = b.job_ad("true", ShouldTransferFiles="YES", **attributes)
    return await b.open_transfer("activation", spool=spool)


@pytest.mark.parametrize("links", [OUT_BY_LINKS, THROUGH_A_LINK])
async def test_no_output_is_written_through_links_that_came_before_it(links: list[FileEntry]) -> None:
    async with bench(agent=True, start=False) as b:
        address = await _open(b, TransferOutput="d")
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            await _push(b, peer, links)
            await _push(b, peer, [FileEntry(name="d/a/b/out/keys", size=4), FileEntry(name="d/out/keys", size=4)])
        assert sorted(os.listdir(b.iwd / "outside")) == ["secret"]


async def test_no_checkpoint_gives_back_what_its_links_lead_to() -> None:
    links = [*OUT_BY_LINKS[:-1], _link("d/a/b/out", "up/../../../outside/secret")]
    async with bench(agent=True, start=False) as b:
        address = await _open(b, spool=True, TransferCheckpoint="d")
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            await _push(b, peer, links, checkpoint=True)
            answer = await peer.call(FetchInput(activation="activation"))
        assert SECRET.encode() not in [entry.data for entry in answer.files]


@pytest.mark.parametrize("entry", [FileEntry(name="less", size=-(10**12)), FileEntry(name="more", size=1, data=b"xx")])
async def test_no_file_is_of_another_length_than_is_said(entry: FileEntry) -> None:
    """Limits for output count what is said."""
    async with bench(agent=True, start=False) as b:
        address = await _open(b)
        async with endpoints.connected(address, security=b.security.with_ticket("files")) as peer:
            assert not await _push(b, peer, [entry, FileEntry(name="big", size=4)])
        assert os.listdir(b.iwd) == ["outside"]


def test_no_output_that_nobody_named_is_what_a_shell_reads_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.symlink_to(home)
    monkeypatch.setattr(trusted_path, "opened_by_root", lambda: False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(home)))
    for directory in (home, elsewhere):
        with pytest.raises(Untrusted, match="hidden files at home"):
            check_unnamed(str(directory / ".bash_profile"), 0.0)
        check_unnamed(str(directory / "result"), 0.0)
    check_unnamed(str(tmp_path / ".result"), 0.0)
