"""The program that sends mail has the rights of the user whose mail it is, never root's."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, needs_accounts, python_as
from tests.whole.real_pool import RealPool, pool_directory, real_pool

pytestmark = needs_accounts

PROGRAM = """#!/bin/sh
{ echo "$(id -u) $(id -G)"; env; echo "arguments $*"; cat; } > "$(mktemp BOX/mail.XXXXXX)"
"""


@pytest.fixture(scope="module")
def mailed() -> Iterator[tuple[RealPool, Path]]:
    with pool_directory() as box:
        box.chmod(0o1777)
        program = box / "sendmail"
        program.write_text(PROGRAM.replace("BOX", str(box)))
        program.chmod(0o755)
        with real_pool(user=ATTACKER, SENDMAIL=program) as pool:
            yield pool, box


def mails(pool: RealPool, box: Path, count: int) -> list[str]:
    """The mails that were sent, as soon as there are so many; they are taken out of the box."""

    def there() -> list[Path]:
        found = [path for path in box.glob("mail.*") if "Subject:" in path.read_text()]
        return found if len(found) >= count else []

    found = pool.until(there, f"{count} mails")
    texts = [path.read_text() for path in found]
    for path in found:
        path.unlink()
    return texts


def test_mail_is_sent_as_the_jobs_owner(mailed: tuple[RealPool, Path]) -> None:
    pool, box = mailed
    uid = python_as(ATTACKER, "import os; print(os.getuid(), os.getgid())").split()
    pool.submit("executable = /bin/true\nnotification = always\nqueue\n")
    (mail,) = mails(pool, box, 1)
    ids = mail.splitlines()[0].split()
    assert ids[0] == uid[0]
    assert ids[1] == uid[1]
    assert "0" not in ids
    assert "MINIPOOL_TEST_MARK" not in mail  # nor has it the environment of the schedd


def test_no_word_of_a_user_becomes_an_option(mailed: tuple[RealPool, Path]) -> None:
    pool, box = mailed
    evil = f"-oX{box}/evil, -C/etc/passwd, ann, -bp@x"
    pool.submit(f"executable = /bin/true\nnotification = always\nnotify_user = {evil}\nqueue\n")
    (mail,) = mails(pool, box, 1)
    (arguments,) = (line for line in mail.splitlines() if line.startswith("arguments "))
    _, _, recipients = arguments.partition(" -- ")
    assert recipients.startswith("ann@")
    assert len(recipients.split()) == 1


def test_a_tool_of_root_sends_no_mail_as_root(mailed: tuple[RealPool, Path]) -> None:
    pool, box = mailed
    stray = pool.directory / "spool" / "stray-file"
    stray.write_text("x")
    (pool.directory / "config").write_text(f"SENDMAIL = {box}/sendmail\nPREEN_ADMIN = admin@pool.test\n")
    stray.chmod(stat.S_IRUSR)
    pool.user = None
    try:
        pool.tool("condor_preen", "-m", check=False)
    finally:
        pool.user = ATTACKER
        stray.unlink(missing_ok=True)
    (mail,) = mails(pool, box, 1)
    assert "0" not in mail.splitlines()[0].split()
