from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import trio

from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow

from .bench import bench, job_user

YES = {"ShouldTransferFiles": "YES"}


def _own(*paths: Path) -> None:
    """Give what a test made to the job's user."""
    if os.getuid() == 0:
        import pwd

        user = pwd.getpwnam(job_user())
        for path in paths:
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


async def test_files_go_in_and_come_out_with_their_shape() -> None:
    async with bench(agent=True) as b:
        deep = b.iwd / "seedbed" / "deep"
        deep.mkdir(parents=True)
        (b.iwd / "seedbed" / "oak.txt").write_text("oak\n")
        (deep / "elm.txt").write_text("elm\n")
        (b.iwd / "label.txt").write_text("label\n")
        (b.iwd / "grow.sh").write_text(
            "#!/bin/sh\nset -e\nmkdir -p garden/left\ncp -r seedbed garden/left/copy\nmkdir -p garden/left/copy/deep/deeper/empty\n"
            "chmod +x garden/left/copy/oak.txt\ncat label.txt\nls > listing\n"
        )
        (b.iwd / "grow.sh").chmod(0o644)
        job = b.job_ad(
            Cmd="grow.sh", TransferExecutable=True, Arguments="", TransferInput="seedbed, label.txt",
            TransferOutput="garden, listing", **YES,
        )  # fmt: skip
        end = await b.ended(await b.run(job, files=True))
        assert end.ad.eval_int("ExitCode") == 0, (b.iwd / "err").read_text()
        assert (b.iwd / "out").read_text() == "label\n"
        assert (b.iwd / "garden/left/copy/deep/elm.txt").read_text() == "elm\n"
        assert (b.iwd / "garden/left/copy/deep/deeper/empty").is_dir()
        assert os.access(b.iwd / "garden/left/copy/oak.txt", os.X_OK)
        assert (
            b.iwd / "listing"
        ).read_text() == "_condor_stderr\n_condor_stdout\ngarden\ngrow.sh\nlabel.txt\nlisting\nseedbed\n"
        assert end.ad.eval_float("BytesRecvd") > 0
        assert end.ad.eval_float("BytesSent") > 0


async def test_new_and_changed_files_come_back_and_others_do_not() -> None:
    async with bench(agent=True) as b:
        for name in ("kept", "changed"):
            (b.iwd / name).write_text("before\n")
        _own(b.iwd / "kept", b.iwd / "changed")
        os.utime(b.iwd / "kept", (1, 1))
        command = "echo after > changed; echo new > new; mkdir dir; echo x > dir/x; mkfifo pipe; ln -s nowhere dangling"
        await b.ended(await b.run(b.job_ad(command, TransferInput="kept,changed", **YES), files=True))
        assert (b.iwd / "changed").read_text() == "after\n"
        assert (b.iwd / "new").read_text() == "new\n"
        assert (b.iwd / "kept").stat().st_mtime == 1
        assert sorted(os.listdir(b.iwd)) == ["changed", "err", "kept", "new", "out"]


async def test_large_files_arrive_whole() -> None:
    async with bench(agent=True) as b:
        content = os.urandom(3_000_001)
        (b.iwd / "large").write_bytes(content)
        job = b.job_ad("cat large large > twice", TransferInput="large", **YES)
        end = await b.ended(await b.run(job, files=True))
        assert end.ending is Ending.EXITED
        assert (b.iwd / "twice").read_bytes() == 2 * content
        assert end.ad.eval_float("BytesRecvd") == 3_000_001
        assert end.ad.eval_float("BytesSent") == 6_000_002


async def test_remaps_and_standard_files_find_their_places() -> None:
    async with bench(agent=True) as b:
        (b.iwd / "logs").mkdir()
        (b.iwd / "numbers").write_text("2\n1\n")
        _own(b.iwd / "logs")
        job = b.job_ad(
            "sort; echo result > result; echo more > more",
            In="numbers",
            Out="logs/o",
            Err="/dev/null",
            TransferOutputRemaps="result=logs/r.1; more=new/directory/m",
            **YES,
        )
        await b.ended(await b.run(job, files=True))
        assert (b.iwd / "logs/o").read_text() == "1\n2\n"
        assert (b.iwd / "logs/r.1").read_text() == "result\n"
        assert (b.iwd / "new/directory/m").read_text() == "more\n"
        assert sorted(os.listdir(b.iwd)) == ["logs", "new", "numbers"]


@pytest.mark.parametrize(
    ("attributes", "code", "subcode", "words"),
    [
        ({"TransferInput": "missing"}, 13, 2, ["missing", "No such file", "access.test", "slot1_1@test"]),
        ({"TransferInput": "gopher://example.org/x"}, 13, -1002, ["gopher://example.org/x", "slot1_1@test"]),
        ({"TransferInput": "pipe"}, 13, 22, ["pipe"]),
        ({"Cmd": "missing", "TransferExecutable": True}, 13, 2, ["missing"]),
        ({"TransferOutput": "missing"}, 12, 2, ["missing", "No such file", "slot1_1@test"]),
        ({"TransferOutput": ""}, 0, 0, []),
        ({"Out": "pipe/out"}, 12, 17, ["_condor_stdout", "access.test"]),
    ],
)
async def test_files_that_cannot_move_hold_the_job(
    attributes: dict[str, str], code: int, subcode: int, words: list[str]
) -> None:
    async with bench(agent=True) as b:
        os.mkfifo(b.iwd / "pipe")
        end = await b.ended(await b.run(b.job_ad("echo x > made", **YES | attributes), files=True))
        assert end.ad.eval_int("HoldReasonCode", 0) == code
        if code:
            assert end.ending is Ending.HOLD
            assert end.ad.eval_int("HoldReasonSubCode") == subcode
        for word in words:
            assert word in (end.ad.eval_str("HoldReason") or "")
        assert not (b.iwd / "made").exists()


async def test_a_link_out_of_the_sandbox_leads_no_further_than_its_job_could_go() -> None:
    async with bench(agent=True) as b:
        secret = b.root / "secret"
        secret.write_text("secret\n")
        secret.chmod(0o600)
        command = f"ln -s {secret} stolen; mkdir d; ln -s {secret} d/stolen; ln -s ../d/own d/up; echo own > d/own; ln -s own d/link"
        end = await b.ended(await b.run(b.job_ad(command, TransferOutput="d", **YES), files=True))
        if os.getuid() == 0:
            assert end.ending is Ending.HOLD
            assert end.ad.eval_int("HoldReasonSubCode") == 13
        assert not (b.iwd / "stolen").exists()
        if os.getuid() == 0:
            assert not (b.iwd / "d/stolen").exists()


async def test_output_replaces_nothing_before_it_has_all_arrived() -> None:
    async with bench(agent=True) as b:
        (b.iwd / "result").write_text("old\n")
        _own(b.iwd / "result")
        end = await b.ended(
            await b.run(b.job_ad("echo new > result; mkdir no", TransferOutput="result, nothere", **YES), files=True)
        )
        assert end.ending is Ending.HOLD
        assert (b.iwd / "result").read_text() == "old\n"
        assert not [name for name in os.listdir(b.iwd) if name.endswith(".part")]


async def test_output_keeps_the_mode_of_what_was_there_and_follows_links() -> None:
    async with bench(agent=True) as b:
        (b.iwd / "real").write_text("old\n")
        (b.iwd / "real").chmod(0o640)
        (b.iwd / "out").symlink_to("real")
        _own(b.iwd / "real")
        await b.ended(await b.run(b.job_ad("echo new", **YES), files=True))
        assert (b.iwd / "out").is_symlink()
        assert (b.iwd / "real").read_text() == "new\n"
        assert stat.S_IMODE((b.iwd / "real").stat().st_mode) == 0o640


async def test_only_after_success_output_comes_back_when_asked_so() -> None:
    async with bench(agent=True) as b:
        await b.ended(
            await b.run(b.job_ad("echo x > made; exit 1", WhenToTransferOutput="ON_SUCCESS", **YES), files=True)
        )
        assert (b.iwd / "out").exists()
        assert not (b.iwd / "made").exists()


async def test_an_agent_that_is_lost_is_waited_for_with_the_output() -> None:
    async with bench(agent=True) as b:
        assert b.agent_child is not None
        activation = await b.run(b.job_ad("echo x > made; while [ ! -e go ]; do sleep 0.05; done", **YES), files=True)
        with trio.fail_after(60):
            while not (b.sandbox / "made").exists():
                await trio.sleep(0.02)
        b.agent_child.kill()
        await b.agent_child.wait()
        (b.sandbox / "go").touch()
        with trio.fail_after(60):
            while "The file agent" not in b.log():
                await trio.sleep(0.02)
        await b.start_agent()
        await b.open_transfer(activation)
        end = await b.ended(activation)
        assert end.ending is Ending.EXITED
        assert (b.iwd / "made").read_text() == "x\n"


async def test_an_eviction_while_output_waits_ends_the_waiting() -> None:
    async with bench(agent=True) as b:
        assert b.agent_child is not None
        activation = await b.run(b.job_ad("while [ ! -e go ]; do sleep 0.05; done", **YES), files=True)
        with trio.fail_after(60):
            while "The job runs" not in b.log():
                await trio.sleep(0.02)
        b.agent_child.kill()
        await b.agent_child.wait()
        (b.sandbox / "go").touch()
        with trio.fail_after(60):
            while "The file agent" not in b.log():
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_streams_move_while_the_job_runs() -> None:
    async with bench(agent=True) as b:
        (b.iwd / "in").write_text("one\ntwo\n" + "x" * 600_000 + "\n")
        job = b.job_ad(
            'read a; read b; echo "$b $a"; echo loud >&2; while [ ! -e go ]; do sleep 0.05; done; wc -c',
            In="in", StreamIn=True, StreamOut=True, StreamErr=True, **YES,
        )  # fmt: skip
        activation = await b.run(job, files=True)
        with trio.fail_after(60):
            while not (b.iwd / "out").exists() or (b.iwd / "out").read_text() != "two one\n":
                await trio.sleep(0.02)
            while not (b.iwd / "err").exists() or (b.iwd / "err").read_text() != "loud\n":
                await trio.sleep(0.02)
        (b.sandbox / "go").touch()
        end = await b.ended(activation)
        assert end.ending is Ending.EXITED, end.ad
        first, last = (b.iwd / "out").read_text().splitlines()
        assert first == "two one"
        assert 0 < int(last) <= 600_001  # less what the shell had read ahead
        assert not (b.iwd / "in.part").exists()


async def test_a_streamed_job_of_a_moment_loses_no_output() -> None:
    async with bench(agent=True) as b:
        (b.iwd / "out").write_text("what was there before, and longer\n")
        _own(b.iwd / "out")
        end = await b.ended(await b.run(b.job_ad("echo new", StreamOut=True, **YES), files=True))
        assert end.ending is Ending.EXITED
        assert (b.iwd / "out").read_text() == "new\n"
