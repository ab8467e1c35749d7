"""The plug-in that comes with the pool, against servers and URLs that are broken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.libexec import url_plugin
from daemons.libexec.url_plugin import TRIES_MAX, PluginTransfer


@pytest.fixture
def breaks_off() -> Iterator[int]:
    """A server that takes a whole upload of `output` and breaks off in the middle of its chunked answer."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                stream, _ = listening.accept()
            except OSError:
                return
            with stream:
                # What is left unread at the close would reset the connection, and with it the answer.
                request = b""
                while not request.endswith(b"output"):
                    request += stream.recv(65536)
                stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_an_answer_that_breaks_off_is_tried_again_and_told(
    breaks_off: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_plugin, "FIRST_PAUSE_S", 0.001)
    (tmp_path / "out").write_text("output")
    answer = PluginTransfer(f"http://127.0.0.1:{breaks_off}/out", str(tmp_path / "out"), upload=True).run()
    assert answer["TransferSuccess"] is False
    assert "IncompleteRead" in answer.eval_str("TransferError", "")
    assert answer.eval("DeveloperData")["TransferTries"] == TRIES_MAX  # type: ignore[index]


def test_a_url_with_a_port_that_is_none_is_told_and_costs_no_other_file(tmp_path: Path) -> None:
    answer = PluginTransfer("ftp://host:many/file", str(tmp_path / "file"), upload=False).run()
    assert answer["TransferSuccess"] is False
    assert "ValueError" in answer.eval_str("TransferError", "")
