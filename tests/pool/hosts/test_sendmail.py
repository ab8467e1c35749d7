"""What a letter's head may hold."""

from __future__ import annotations

from pool.hosts.sendmail import send
from tests.whole.real_pool import pool_directory


def test_a_line_end_begins_no_further_header() -> None:
    with pool_directory() as directory:
        directory.chmod(0o1777)
        program, box = directory / "sendmail", directory / "box"
        program.write_text(f"#!/bin/sh\ncat > {box}\n")
        program.chmod(0o755)
        send(str(program), "", ["ann@pool.test"], "done\r\nBcc: all@pool.test", "text", "pool\nX-Spam: yes")
        head, _, body = box.read_text().partition("\n\n")
    assert head.split("\n") == ["From: pool X-Spam: yes", "To: ann@pool.test", "Subject: done Bcc: all@pool.test"]
    assert body == "text"
