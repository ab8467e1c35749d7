"""Files with URLs: the pool's own plug-in against a real HTTP server, and plug-ins of the machine and of the job."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemons.host.child_settings import StarterSettings
from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending

from .bench import bench

YES = {"ShouldTransferFiles": "YES"}
BUILT_IN = ["/nowhere/curl_plugin"]

PLUGIN = """#!/bin/sh
# A plug-in for tree://: fetches write what they were asked, uploads append it to a ledger.
if [ "$1" = -classad ]; then
    printf 'MultipleFileSupport = true\\nPluginVersion = "1"\\nPluginType = "FileTransfer"\\nSupportedMethods = "tree,broken"\\n'
    exit 0
fi
url=$(sed -n 's/.*Url = "\\([^"]*\\)".*/\\1/p' "$2")
file=$(sed -n 's/.*LocalFileName = "\\([^"]*\\)".*/\\1/p' "$2")
case "$url" in
broken://signal*) kill -9 $$ ;;
broken://slow*) sleep 600 ;;
broken://mute*) exit 3 ;;
broken://*) echo "[ TransferUrl = \\"$url\\"; TransferSuccess = false; TransferError = \\"no such tree\\" ]" > "$4"; exit 7 ;;
esac
if [ "$5" = -upload ]; then
    cp "$file" "$LEDGER/$(basename "$url")"
else
    { echo "as $(id -u)"; cat "$2"; env | grep ^COLOUR; } > "$file"
fi
echo "[ TransferUrl = \\"$url\\"; TransferSuccess = true; TransferTotalBytes = 5 ]" > "$4"
"""


class Handler(BaseHTTPRequestHandler):
    """Serves what is in `files`, takes what is put; breaks off once where it is told to."""

    server: Server

    def do_GET(self) -> None:
        served = self.server
        served.asked.append((self.path, self.headers.get("Range", "")))
        data = served.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.path in served.breaks:
            served.breaks.discard(self.path)
            self.wfile.write(data[: len(data) // 2])
            return
        self.wfile.write(data[start:])

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))  # unread, it would reset the connection
        if self.path.startswith("/readonly"):
            self.send_error(403)
            return
        self.server.files[self.path] = data
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """An HTTP server on a free port."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.breaks: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def http_server() -> Iterator[Server]:
    """Serve while the block runs."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def a_plugin(directory: Path) -> Path:
    """A plug-in for the schemes tree and broken."""
    path = directory / "tree_plugin"
    path.write_text(PLUGIN)
    path.chmod(0o755)
    return path


async def test_http_files_come_and_go_through_the_built_in_plugin() -> None:
    with http_server() as server:
        server.files = {"/in/seed.txt?v=2": b"seed\n", "/large": bytes(range(256)) * 4096}
        server.breaks = {"/large"}
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            (b.iwd / "plain").write_text("plain\n")
            job = b.job_ad(
                "cat plain seed.txt; cp large grown; echo kept > kept",
                TransferInput=f"plain, {server.url}/in/seed.txt?v=2, {server.url}/large",
                TransferOutput="grown, kept",
                TransferOutputRemaps=f"grown={server.url}/out/grown",
                **YES,
            )
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.EXITED, end.ad
            assert (b.iwd / "out").read_text() == "plain\nseed\n"
            assert (b.iwd / "kept").read_text() == "kept\n"
            assert not (b.iwd / "grown").exists()
        assert server.files["/out/grown"] == server.files["/large"]
        assert ("/large", "bytes=524288-") in server.asked
        stats = end.ad["TransferInputStats"]
        assert isinstance(stats, ClassAd)
        assert (stats["HttpFilesCount"], stats["CedarFilesCount"], stats["HttpSizeBytesTotal"]) == (2, 1, 1048581)
        assert len(end.ad["InputPluginResultList"]) == 2  # type: ignore[arg-type]


async def test_output_destination_takes_all_but_the_standard_files() -> None:
    with http_server() as server:
        async with bench(agent=True, url_plugins=BUILT_IN) as b:
            job = b.job_ad(
                "echo said; mkdir d; echo 1 > d/one; echo 2 > two",
                TransferOutput="d, two",
                OutputDestination=f"{server.url}/box",
                **YES,
            )
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is Ending.EXITED, end.ad
            assert sorted(os.listdir(b.iwd)) == ["err", "out"]
        assert server.files == {"/box/d/one": b"1\n", "/box/two": b"2\n"}


@pytest.mark.parametrize(
    ("attributes", "code", "subcode", "words"),
    [
        ({"TransferInput": "SERVER/none"}, 13, 256, ["404", "SERVER/none", "slot1_1@test", "protocol http"]),
        ({"OutputDestination": "SERVER/readonly"}, 12, 256, ["403", "SERVER/readonly/made", "slot1_1@test"]),
        ({"TransferInput": "broken://x"}, 13, 7 << 8, ["no such tree", "broken://x", "tree_plugin"]),
        ({"TransferInput": "broken://signal"}, 13, 9, ["signal 9", "broken://signal"]),
        ({"TransferInput": "broken://mute"}, 13, 3 << 8, ["without producing a TransferSuccess"]),
        ({"TransferInput": "broken://slow"}, 13, 62, ["killed after", "broken://slow"]),
        ({"TransferOutputRemaps": "made = broken://y"}, 12, 7 << 8, ["no such tree", "broken://y"]),
        ({"TransferPlugins": "own=own_plugin", "TransferInput": "own://x"}, 13, -1002, ["own_plugin", "own://x"]),
    ],
)
async def test_what_a_plugin_cannot_move_holds_the_job(
    attributes: dict[str, str], code: int, subcode: int, words: list[str]
) -> None:
    with http_server() as server:
        async with bench(agent=True, start=False) as b:
            slow = "slow" in str(attributes)
            await b.start_starter(
                url_plugins=[*BUILT_IN, str(a_plugin(b.root))], plugin_lifetime_s=0.5 if slow else 60.0
            )
            (b.iwd / "own_plugin").write_text("#!/bin/sh\nexit 1\n")
            given = {name: value.replace("SERVER", server.url) for name, value in attributes.items()}
            end = await b.ended(await b.run(b.job_ad("echo x > made", **YES | given), files=True))
            assert end.ending is Ending.HOLD, end.reason
            assert (end.ad["HoldReasonCode"], end.ad["HoldReasonSubCode"]) == (code, subcode)
            for word in words:
                assert word.replace("SERVER", server.url) in (end.ad.eval_str("HoldReason") or "")


async def test_plugins_run_as_the_jobs_account_with_its_environment() -> None:
    async with bench(agent=True, start=False) as b:
        await b.start_starter(url_plugins=[str(a_plugin(b.root))])
        ledger = b.iwd / "ledger"
        ledger.mkdir()
        ledger.chmod(0o777)
        job = b.job_ad(
            "cat oak; id -u >> leaf; ls -A | grep tree_plugin",
            TransferInput="tree://wood/oak",
            TransferOutputRemaps="leaf=tree://heap/leaf.1",
            tree_PluginData="[ Depth = 3 ]",
            Environment=f"PATH=/bin:/usr/bin COLOUR=green LEDGER={ledger}",
            **YES,
        )
        await b.ended(await b.run(job, files=True))
        said = (b.iwd / "out").read_text()
        uid = (ledger / "leaf.1").read_text().strip()
        assert f"as {uid}\n" in said
        assert "COLOUR=green" in said
        assert "Depth" in said
        assert ".tree_plugin" not in said  # its files are gone before the job starts


async def test_a_job_brings_its_own_plugin_unless_the_machine_refuses_it() -> None:
    for refuses, ending in (("", Ending.EXITED), ("true", Ending.HOLD), ("2", Ending.HOLD)):
        async with bench(agent=True, url_plugins=BUILT_IN, refuses_jobs_plugins=refuses) as b:
            a_plugin(b.iwd).chmod(0o644)
            job = b.job_ad("cat oak", TransferPlugins="tree=tree_plugin", TransferInput="tree://wood/oak", **YES)
            end = await b.ended(await b.run(job, files=True))
            assert end.ending is ending, end.reason
            if ending is Ending.HOLD:
                said = "not allowed" if refuses == "true" else "no file transfer plugin"
                assert said in (end.ad.eval_str("HoldReason") or "")


async def test_a_plugin_of_the_machine_that_does_not_work_sends_the_job_elsewhere() -> None:
    async with bench(agent=True, url_plugins=["/nowhere/oak_plugin"]) as b:
        job = b.job_ad("true", TransferInput="oak://x", **YES)
        end = await b.ended(await b.run(job, files=True))
        assert end.ending is Ending.FAILED
        assert "oak://x" in end.reason


def test_starters_are_given_the_machines_plugins() -> None:
    settings = StarterSettings(slot="slot1@x", execute="/x")
    assert settings.url_plugins == []
    assert settings.plugin_lifetime_s == 72000
