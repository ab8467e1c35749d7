"""Fetched work, job hooks and cron jobs in a whole pool: the hooks are real scripts, the daemons real processes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd, parse_long
from tests.whole.real_pool import RealPool, real_pool

HELD, RUNNING = 5, 2
BUSY_DELAY = "ifThenElse(SlotID == 2, 1, 3600)"
"""Only the slot of RANKED asks for other work while it runs some: what it does not like better it rejects."""

FETCH = """#!/bin/sh
# Prints the oldest ad of QUEUE, and takes it away.
cat > {notes}/slot.$$ && mv {notes}/slot.$$ {notes}/slot
for ad in {queue}/*.ad; do
  [ -e "$ad" ] && mv "$ad" "$ad.taken" && cat "$ad.taken" && break
done
exit 0
"""
TELL = """#!/bin/sh
cat > {notes}/{name}.$$
echo "$*" >> {notes}/{name}.words
mv {notes}/{name}.$$ {notes}/{name}
"""


class Site:
    """A pool of static slots and a partitionable one, with hooks for some of them."""

    def __init__(self, pool: RealPool) -> None:
        self.pool = pool
        self.hooks = pool.directory / "hooks"
        self.hooks.mkdir()

    def place(self, keyword: str) -> Path:
        """Where a keyword's work waits, and what its hooks note down."""
        place = self.pool.directory / keyword.lower()
        if not place.exists():
            for directory in (place, place / "queue", place / "notes", place / "home"):
                directory.mkdir()
                directory.chmod(0o777)
        return place

    def afresh(self, keyword: str) -> Path:
        """Forget what an earlier run of the test has left; the home directory of the keyword's work."""
        place = self.place(keyword)
        for directory in ("queue", "notes", "home"):
            for path in (place / directory).iterdir():
                path.unlink(missing_ok=True)  # hooks that nobody waits for rename theirs
        return place / "home"

    def script(self, name: str, text: str) -> str:
        path = self.hooks / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def keyword(self, keyword: str) -> dict[str, str]:
        """The knobs of a keyword whose three hooks note down what they are given."""
        place = self.place(keyword)
        lower = keyword.lower()
        words = {"queue": place / "queue", "notes": place / "notes"}
        return {
            f"{keyword}_HOOK_FETCH_WORK": self.script(f"{lower}_fetch", FETCH.format(**words)),
            f"{keyword}_HOOK_REPLY_FETCH": self.script(f"{lower}_reply", TELL.format(name="reply", **words)),
            f"{keyword}_HOOK_EVICT_CLAIM": self.script(f"{lower}_evict", TELL.format(name="evict", **words)),
        }

    def offer(self, keyword: str, name: str, **attributes: object) -> Path:
        """Have work wait for the hook; its home directory."""
        place = self.place(keyword)
        work: dict[str, object] = {"Owner": job_owner(), "IWD": str(place / "home"), **attributes}
        path = place / "queue" / f"{name}.new"
        path.write_text(ClassAd(work).long())
        path.rename(place / "queue" / f"{name}.ad")
        return place / "home"

    def note(self, keyword: str, name: str) -> str:
        """What a hook has noted down, once it has."""
        path = self.place(keyword) / "notes" / name
        self.pool.until(path.exists, f"{path}")
        return path.read_text()

    def replies(self, keyword: str) -> list[str]:
        path = self.place(keyword) / "notes" / "reply.words"
        return path.read_text().split() if path.exists() else []

    def until_replies(self, keyword: str, reply: str, count: int) -> None:
        """Wait until the hook, for which nobody waits, has heard this so often."""
        self.pool.until(lambda: self.replies(keyword).count(reply) == count, f"{count} times {reply} to {keyword}")

    def slot(self, number: int) -> ClassAd:
        """The slot's ad as its startd has it."""
        from pool.classad import parse_longs

        said = self.pool.tool("condor_status", "-direct", _host(self.pool), "-long")
        return next(ad for ad in parse_longs(said.splitlines()) if ad.eval_str("Name", "").startswith(f"slot{number}@"))

    def as_owner(self, *argv: str) -> str:
        """Run a tool as the pool's owner."""
        user, self.pool.user = self.pool.user, None
        try:
            return self.pool.tool(*argv)
        finally:
            self.pool.user = user

    def until_text(self, path: Path, text: str) -> str:
        self.pool.until(lambda: path.exists() and text in path.read_text(), f"{text!r} in {path}")
        return path.read_text()


def job_owner() -> str:
    return "nobody" if os.geteuid() == 0 else __import__("pwd").getpwuid(os.geteuid()).pw_name


def _host(pool: RealPool) -> str:
    found = re.search(r"slot\d+@(\S+)", pool.tool("condor_status"))
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with real_pool(
        start=False,
        NUM_CPUS="12",
        SLOT_TYPE_1="cpus=1, memory=128",
        NUM_SLOTS_TYPE_1="7",
        SLOT_TYPE_2="cpus=4, memory=1024",
        SLOT_TYPE_2_PARTITIONABLE="true",
        NUM_SLOTS_TYPE_2="1",
        MEMORY="4096",
        POLLING_INTERVAL="1",
        FetchWorkDelay=f'ifThenElse(State == "Claimed", ifThenElse(Activity == "Idle", 0, {BUSY_DELAY}), 1)',
        START='TARGET.Unwanted =!= true && (SlotID != 7 || Hour is "now")',
        RANK="TARGET.Importance ?: 0",
        KILLING_TIMEOUT="20",
        STARTER_INITIAL_UPDATE_INTERVAL="1",
        STARTER_UPDATE_INTERVAL="1",
    ) as pool:
        site = Site(pool)
        for number, keyword in enumerate(("PLAIN", "RANKED", "REUSED", "EVICTED", "BROKEN"), 1):
            pool.settings.update(site.keyword(keyword), **{f"SLOT{number}_JOB_HOOK_KEYWORD": keyword})
        pool.settings.update(BROKEN_HOOK_FETCH_WORK_TIMEOUT="1", REUSED_HOOK_REPLY_FETCH_TIMEOUT="3")
        pool.settings["REUSED_HOOK_REPLY_FETCH"] = site.script(
            "reused_slow_reply", TELL.format(name="reply", notes=site.place("REUSED") / "notes") + "exec sleep 1000\n"
        )
        pool.settings.update(site.keyword("PARTS"), SLOT8_JOB_HOOK_KEYWORD="PARTS")
        warning = "#!/bin/sh\necho 'HookStatusMessage = \"the disk is slow\"'\n"
        pool.settings.update(
            FAILS_HOOK_PREPARE_JOB=site.script("fails", "#!/bin/sh\nexit 2\n"),
            WARNS_HOOK_PREPARE_JOB=site.script("warns", warning),
        )
        cron = site.script("describe", f"#!/bin/sh\ncat {pool.directory}/cron.out 2>/dev/null\nexit 0\n")
        pool.settings.update(
            STARTD_CRON_JOBLIST="describe",
            STARTD_CRON_describe_EXECUTABLE=cron,
            STARTD_CRON_describe_PERIOD="1s",
            SCHEDD_CRON_JOBLIST="queue",
            SCHEDD_CRON_queue_EXECUTABLE=site.script("queue", "#!/bin/sh\necho Site = '\"here\"'\n"),
            SCHEDD_CRON_queue_MODE="OneShot",
            SCHEDD_CRON_queue_PREFIX="My",
        )
        pool.start()
        yield site


def test_fetched_work_runs_with_all_that_its_ad_may_say(site: Site) -> None:
    home = site.afresh("PLAIN")
    (home / "in").write_text("from a file\n")
    site.offer(
        "PLAIN",
        "one",
        Cmd="/bin/sh",
        Arguments="-c 'cat; echo \"$A $B\"; pwd; echo oops >&2; exit 3'",
        Env="A=1;B=two words",
        In="in",
        Out="out",
        Err="err",
        JobUniverse=5,
        StarterUserLog="log",
    )
    log = site.until_text(home / "log", "005 (001.000.000)")
    assert (home / "out").read_text() == f"from a file\n1 two words\n{home}\n"
    assert (home / "err").read_text() == "oops\n"
    assert "001 (001.000.000)" in log
    assert "(return value 3)" in log
    job, _, slot = site.note("PLAIN", "reply").partition("-----\n")
    assert site.replies("PLAIN")[0] == "accept"
    assert parse_long(job).eval_str("HookKeyword") == "PLAIN"
    assert parse_long(slot).eval_str("Name", "").startswith("slot1@")
    assert parse_long(site.note("PLAIN", "slot")).eval_int("SlotID") == 1
    assert not (site.place("PLAIN") / "notes" / "evict").exists()


def test_arguments_of_the_old_form_and_a_log_in_xml(site: Site) -> None:
    site.afresh("PLAIN")
    home = site.offer(
        "PLAIN",
        "old",
        Cmd="/bin/echo",
        Args="one two",
        Out="old.out",
        StarterUserLog="old.log",
        StarterUserLogUseXML=True,
    )
    log = site.until_text(home / "old.log", "JobTerminatedEvent")
    assert (home / "old.out").read_text() == "one two\n"
    assert log.startswith("<c>\n")
    assert "ExecuteEvent" in log


def test_without_a_directory_work_runs_in_the_sandbox(site: Site) -> None:
    out = site.afresh("PLAIN") / "where"
    place = site.place("PLAIN") / "queue" / "bare"
    text = ClassAd({"Cmd": "/bin/pwd", "Owner": job_owner(), "Out": str(out)}).long()
    place.with_suffix(".new").write_text(text)
    place.with_suffix(".new").rename(place.with_suffix(".ad"))
    site.until_text(out, "\n")
    assert re.search(r"/execute/dir_\d+$", out.read_text().strip())


def test_work_that_start_does_not_want_is_rejected(site: Site) -> None:
    site.afresh("PLAIN")
    site.offer("PLAIN", "unwanted", Cmd="/bin/true", Unwanted=True)
    site.until_replies("PLAIN", "reject", 1)
    note = site.place("PLAIN") / "notes" / "reply"
    site.until_text(note, "Unwanted = true")


def test_better_work_takes_the_place_of_what_runs_and_worse_does_not(site: Site) -> None:
    site.afresh("RANKED")
    home = site.offer(
        "RANKED",
        "a",
        Cmd="/bin/sh",
        Arguments="-c 'trap \"echo asked > asked; exit\" QUIT; echo up > up; while :; do sleep 0.1; done'",
        KillSig="SIGQUIT",
        Importance=5,
    )
    site.until_text(home / "up", "up")
    site.until_replies("RANKED", "accept", 1)
    site.offer("RANKED", "b", Cmd="/bin/touch", Arguments="worse", Importance=1)
    site.until_replies("RANKED", "reject", 1)
    site.offer("RANKED", "c", Cmd="/bin/sh", Arguments="-c 'echo better > better'", Importance=9)
    site.until_text(home / "better", "better")
    assert (home / "asked").read_text() == "asked\n"
    assert not (home / "worse").exists()
    site.until_replies("RANKED", "accept", 2)
    job, _, slot = site.note("RANKED", "evict").partition("-----\n")
    assert parse_long(job).eval_int("Importance") == 5
    assert parse_long(slot).eval_int("SlotID") == 2


def test_a_claim_is_used_again_while_there_is_work_and_ends_when_there_is_none(site: Site) -> None:
    """Its reply hook hangs, and nobody waits for it. Each work waits for the next to be there."""
    home = site.afresh("REUSED")
    for number in range(3):
        told = f"echo {number} >> out; while [ $(cat out | wc -l) -lt 3 -a ! -e go{number} ]; do sleep 0.1; done"
        site.offer("REUSED", f"{number}", Cmd="/bin/sh", Arguments=f"-c '{told}'")
        if number:
            (home / f"go{number - 1}").touch()
        site.until_text(home / "out", f"{number}\n")
    site.pool.until(lambda: site.slot(3).eval_str("State") in ("Unclaimed", "Owner"), "the end of the claim")
    assert (home / "out").read_text().split() == ["0", "1", "2"]
    site.until_replies("REUSED", "accept", 3)
    assert not (site.place("REUSED") / "notes" / "evict").exists()


def test_evicted_work_is_told_of_and_the_slot_is_given_back(site: Site) -> None:
    site.afresh("EVICTED")
    site.afresh("EVICTED")
    home = site.offer(
        "EVICTED", "long", Cmd="/bin/sh", Arguments="-c 'echo up > up; exec sleep 1000'", StarterUserLog="log"
    )
    site.until_text(home / "up", "up")
    slot = site.slot(4)
    assert (slot.eval_str("State"), slot.eval_str("Activity")) == ("Claimed", "Busy")
    site.as_owner("condor_vacate", "-fast", slot.eval_str("Name", ""))
    job = site.note("EVICTED", "evict").partition("-----\n")[0]
    assert parse_long(job).eval_str("Cmd") == "/bin/sh"
    site.until_text(home / "log", "004 (001.000.000)")


def test_parts_of_a_partitionable_slot_are_carved_for_fetched_work(site: Site) -> None:
    site.afresh("PARTS")
    home = site.offer(
        "PARTS",
        "fits",
        Cmd="/bin/sh",
        Arguments="-c 'echo $_CONDOR_SLOT > slot; while [ ! -e go ]; do sleep 0.1; done'",
        RequestCpus=2,
        RequestMemory=100,
        RequestDisk=1024,
    )
    site.until_text(home / "slot", "slot8_1")
    assert site.slot(8).eval_float("Cpus") == 2
    (home / "go").touch()
    site.pool.until(lambda: site.slot(8).eval_float("Cpus") == 4, "the part to be given back")
    site.offer("PARTS", "unsized", Cmd="/bin/touch", Arguments="unsized")
    log = site.pool.directory / "log" / "StartLog"
    site.until_text(log, "the fetched work has no RequestCpus, RequestMemory, RequestDisk")
    assert not (home / "unsized").exists()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo complete nonsense", "this line has no attribute"),
        ("echo 'Args = \"without a program\"'", "the fetched work has no Cmd"),
        ("echo 'Cmd = \"/bin/true\"'; echo 'JobUniverse = 9'; echo 'Owner = \"nobody\"'", "cannot be of universe 9"),
        ("echo trouble in the hook >&2; exit 9", "trouble in the hook"),
        ("exec sleep 1000", "FETCH_WORK (broken_fetch) took too long"),
    ],
)
def test_a_hook_that_prints_garbage_or_fails_is_logged_and_asked_again(site: Site, script: str, said: str) -> None:
    site.script("broken_fetch.new", f"#!/bin/sh\n{script}\n")
    (site.hooks / "broken_fetch.new").rename(site.hooks / "broken_fetch")
    site.until_text(site.pool.directory / "log" / "StartLog", said)
    assert site.slot(5).eval_str("State") == "Unclaimed"


def test_a_schedds_better_job_takes_the_place_of_fetched_work(site: Site) -> None:
    site.afresh("RANKED")
    home = site.offer("RANKED", "d", Cmd="/bin/sh", Arguments="-c 'echo up > up2; exec sleep 1000'", Importance=1)
    site.until_text(home / "up2", "up")
    work = site.pool.place("work")
    cluster = site.pool.submit(
        "executable = /bin/true\nrequirements = SlotID == 2\n+Importance = 8\nlog = log\nqueue\n", cwd=work
    )
    site.pool.until_done(cluster)


def test_a_deferred_job_waits_on_its_machine_and_is_held_from_there(site: Site) -> None:
    work = site.pool.place("deferred")
    job = "executable = /bin/true\nrequirements = SlotID == 6\nlog = log\ndeferral_prep_time = 7200\n"
    moment = int(time.time()) + 3600
    cluster = site.pool.submit(f"{job}deferral_time = {moment}\nqueue\n", cwd=work)
    site.pool.until(lambda: site.slot(6).eval_str("Activity") == "Busy", "the slot to be busy")
    assert site.pool.until_status(cluster, RUNNING)
    assert "001 (" not in (work / "log").read_text()
    site.pool.tool("condor_hold", str(cluster))
    site.pool.until(lambda: site.slot(6).eval_str("Activity") != "Busy", "the slot to be free")
    assert site.pool.until_status(cluster, HELD)
    assert "001 (" not in (work / "log").read_text()
    site.pool.tool("condor_rm", str(cluster))


def test_a_failed_prepare_hook_is_in_the_jobs_log(site: Site) -> None:
    work = site.pool.place("failing")
    lines = "executable = /bin/true\nrequirements = SlotID == 6\nlog = log\n+HookKeyword = "
    cluster = site.pool.submit(f'{lines}"FAILS"\nqueue\n', cwd=work)
    (held,) = site.pool.until_status(cluster, HELD)
    said = "PREPARE_JOB (fails) failed (exited with status 2): <no message>"
    assert held.eval_int("HoldReasonCode") == 19
    assert held.eval_int("HoldReasonSubCode") == 2
    assert said in held.eval_str("HoldReason", "")
    log = site.until_text(work / "log", "012 (")
    assert "021 (" in log
    assert f"\t{said}\n" in log
    site.pool.tool("condor_rm", str(cluster))


def test_a_message_of_a_prepare_hook_is_in_the_jobs_log_and_the_job_runs(site: Site) -> None:
    work = site.pool.place("warning")
    lines = "executable = /bin/true\nrequirements = SlotID == 6\nlog = log\n+HookKeyword = "
    cluster = site.pool.submit(f'{lines}"WARNS"\nqueue\n', cwd=work)
    (done,) = site.pool.until_done(cluster)
    assert done.eval_int("ExitCode") == 0
    log = (work / "log").read_text()
    assert "PREPARE_JOB (warns) succeeded (exited with status 0): the disk is slow" in log


def test_values_of_cron_jobs_enter_slot_ads_and_start_at_once(site: Site) -> None:
    work = site.pool.place("cronwork")
    cluster = site.pool.submit("executable = /bin/true\nrequirements = SlotID == 7\nlog = log\nqueue\n", cwd=work)
    out = site.pool.directory / "cron.out"
    out.with_suffix(".new").write_text('Hour = "now"\nSlotId = 7\n- seven\nEverywhere = 5\n')
    out.with_suffix(".new").rename(out)
    site.pool.until_done(cluster)

    def shown() -> dict[int, ClassAd]:
        """The slots' ads, once all of them have the value that is everywhere: each comes to the collector by itself."""
        ads = {ad.eval_int("SlotID", 0): ad for ad in site.pool.slots()}
        return ads if {ad.eval_int("Everywhere") for ad in ads.values()} == {5} else {}

    slots = site.pool.until(shown, "the value in all slots' ads")
    assert slots[7].eval_str("Hour") == "now"
    assert "Hour" not in slots[6]


def test_the_schedds_ad_shows_what_its_cron_jobs_say(site: Site) -> None:
    def shown() -> str | None:
        ads = json.loads(site.pool.tool("condor_status", "-schedd", "-json") or "[]")
        return ads[0].get("MySite") if ads else None

    assert site.pool.until(shown, "the schedd's ad") == "here"
