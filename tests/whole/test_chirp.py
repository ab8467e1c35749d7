"""Jobs that reach back to their access point: files, attributes, the log; by our tool, and by HTCondor's own client."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

TOOL = Path(sys.executable).with_name("condor_chirp")

SHELL = """
set -e
chirp={tool}
$chirp fetch given.txt here.txt
cat here.txt
$chirp put here.txt copy.txt
echo more | $chirp put -mode wa - copy.txt
$chirp put -perm 600 here.txt private.txt
$chirp read -offset 2 given.txt 3
$chirp read -stride 2 4 given.txt 6
$chirp remove gone.txt
$chirp get_job_attr Color
$chirp set_job_attr Answer '6 * 7'
$chirp get_job_attr Answer
$chirp get_job_attr Nothing
$chirp set_job_attr_delayed ChirpStage '"third one"'
$chirp get_job_attr_delayed ChirpStage
$chirp ulog 'I have reached stage 3'
$chirp phase cleaning
$chirp getdir sub
$chirp link -s given.txt sub/link
$chirp readlink sub/link 100
$chirp chmod given.txt 640
$chirp whoami
for wrong in 'fetch nowhere.txt x' 'set_job_attr ClusterId 1' 'set_job_attr_delayed Other 1' 'nonsense' 'rmdir sub'; do
    if $chirp $wrong > /dev/null 2>&1; then echo "$wrong was taken"; fi
done
$chirp rmdir -r sub
"""
EXPECTED = """given words
ven
gin rd
"red"
6 * 7
UNDEFINED
"third one"
inner
given.txt
CONDOR
"""

CLIENT = """
import os
import signal
from htcondor2.htchirp import HTChirp

with HTChirp() as chirp:
    chirp.write(b"0123456789" * 100000, "large.bin", flags="wc")
    assert chirp.read("large.bin", 10, offset=5) == b"5678901234"
    chirp.fetch("large.bin", "large.here")
    assert os.path.getsize("large.here") == 1000000
    assert chirp.put("large.here", "large.again") == 1000000
    assert chirp.getdir("tree") == ["leaf"]
    assert chirp.getdir("tree", stat_dict=True)["leaf"]["size"] == 5
    assert chirp.stat("large.again")["size"] == 1000000
    chirp.rename("large.again", "large.moved")
    chirp.truncate("large.bin", 7)
    assert chirp.lstat("large.bin")["size"] == 7
    assert chirp.statfs(".")["f_bsize"] > 0
    chirp.access("large.bin", "rw")
    chirp.utime("large.bin", 1000, 2000)
    assert chirp.stat("large.bin")["mtime"] == 2000
    chirp.set_job_attr("Seen", '"by a client"')
    assert chirp.get_job_attr("Seen") == '"by a client"'
    chirp.set_job_attr_delayed("ChirpDone", "1.5")
    chirp.ulog("the client was here")
    for wrong in ("nowhere", "tree"):
        try:
            chirp.fetch(wrong, "x")
        except chirp.ChirpError:
            pass
        else:
            raise SystemExit(f"{wrong} was fetched")
print("fine")
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=4) as started:
        yield started


def ended(pool: RealPool, case: str, description: str) -> tuple[ClassAd, Path]:
    """Run a job in a directory of its own; its last ad, and the directory."""
    home = pool.place(case)
    for path in (home / "sub", home / "tree"):
        path.mkdir()
        path.chmod(0o777)
    for name, text in (("given.txt", "given words\n"), ("gone.txt", ""), ("sub/inner", ""), ("tree/leaf", "leaf\n")):
        (home / name).write_text(text)
        if pool.user is not None and os.geteuid() == 0:
            os.chown(home / name, *_ids(pool.user))
    if pool.user is not None and os.geteuid() == 0:
        os.chown(home, *_ids(pool.user))
    (home / "shell.sh").write_text(SHELL.format(tool=TOOL))
    (home / "client.py").write_text(CLIENT)
    cluster = pool.submit(description + "output = out\nerror = err\nlog = log\nqueue\n", cwd=home)
    (ad,) = pool.until_done(cluster)
    return ad, home


def _ids(user: str) -> tuple[int, int]:
    import pwd

    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def test_a_job_reaches_its_owners_files_its_ad_and_its_log(pool: RealPool) -> None:
    ad, home = ended(
        pool,
        "shell",
        "executable = /bin/sh\ntransfer_executable = false\narguments = shell.sh\ntransfer_input_files = shell.sh\n"
        'should_transfer_files = YES\nwant_io_proxy = true\n+Color = "red"\n',
    )
    assert (home / "err").read_text() == ""
    assert (home / "out").read_text() == EXPECTED
    assert (ad["ExitCode"], ad.eval_int("Answer"), ad["ChirpStage"]) == (0, 42, "third one")
    assert (home / "copy.txt").read_text() == "given words\nmore\n"
    assert (home / "private.txt").stat().st_mode & 0o777 == 0o600
    assert (home / "given.txt").stat().st_mode & 0o777 == 0o640
    assert not (home / "gone.txt").exists()
    assert not (home / "sub").exists()
    assert not (home / ".chirp.config").exists()
    log = (home / "log").read_text()
    assert "I have reached stage 3\n" in log
    assert "phase: cleaning\n" in log
    assert log.count("\n008 (") == 2


def test_htcondors_own_client_works_also_where_no_files_are_transferred(pool: RealPool) -> None:
    pytest.importorskip("htcondor2")
    ad, home = ended(
        pool,
        "client",
        f"executable = {sys.executable}\narguments = client.py\ntransfer_executable = false\n"
        "should_transfer_files = NO\nwant_io_proxy = true\n",
    )
    assert ((home / "out").read_text(), (home / "err").read_text()) == ("fine\n", "")
    assert (ad["ExitCode"], ad["Seen"], ad["ChirpDone"]) == (0, "by a client", 1.5)
    assert "the client was here\n" in (home / "log").read_text()


def test_without_want_io_proxy_a_job_may_only_set_what_can_wait(pool: RealPool) -> None:
    script = (
        f"{TOOL} set_job_attr_delayed ChirpLate 1 && echo set; {TOOL} set_job_attr Now 1; {TOOL} fetch given.txt x;"
        " test -e x || echo none"
    )
    ad, home = ended(
        pool,
        "modest",
        f"executable = /bin/sh\ntransfer_executable = false\narguments = \"-c '{script}'\"\n"
        "should_transfer_files = YES\n",
    )
    assert (home / "out").read_text() == "set\nnone\n"
    assert (home / "err").read_text().count("the job has not asked for it") == 2
    assert (ad["ChirpLate"], "Now" in ad) == (1, False)


HOLDER = """
import os, time
from htcondor2.htchirp import HTChirp

with HTChirp() as chirp:
    lives = chirp.fetch("lives", "seen") if "lives" in chirp.getdir(".") else 0
    chirp.write(b"x" * (lives + 1), "lives", flags="wct")
    if lives == 0:
        time.sleep(3600)
    chirp.set_job_attr("Lives", str(lives + 1))
"""


@pytest.mark.slow
def test_a_starter_that_is_killed_with_a_chirp_connection_open_leaves_nothing_open(pool: RealPool) -> None:
    pytest.importorskip("htcondor2")
    home = pool.place("holder")
    if pool.user is not None and os.geteuid() == 0:
        os.chown(home, *_ids(pool.user))
    (home / "holder.py").write_text(HOLDER)
    cluster = pool.submit(
        f"executable = {sys.executable}\narguments = holder.py\ntransfer_executable = false\n"
        "transfer_input_files = holder.py\nshould_transfer_files = YES\nwant_io_proxy = true\n"
        "output = out\nerror = err\nlog = log\nqueue\n",
        cwd=home,
    )
    pool.until(lambda: (home / "lives").exists() and (home / "lives").stat().st_size == 1, "the first life's word")
    # That of a job before may be there for a moment more.
    (sandbox,) = pool.until(lambda: len(found := sandboxes(pool)) == 1 and found, "the only sandbox")
    starter = int(sandbox.name.removeprefix("dir_"))
    before = [pid for pid in pool.processes() if _works_in(pid, sandbox)]
    assert before
    os.kill(starter, signal.SIGKILL)
    (ad,) = pool.until_done(cluster)
    assert ((home / "err").read_text(), ad["ExitCode"], ad["Lives"]) == ("", 0, 2)
    assert (home / "lives").read_text() == "xx"
    pool.until(lambda: not sandbox.exists(), "the end of the first sandbox")
    assert not [pid for pid in before if _works_in(pid, sandbox)]


def sandboxes(pool: RealPool) -> list[Path]:
    return list((pool.directory / "execute").glob("dir_*"))


def _works_in(pid: int, sandbox: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd").startswith(str(sandbox))
    except OSError:
        return False
