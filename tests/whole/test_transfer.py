"""Files of jobs in a whole pool: spooled to the access point and fetched from there, through URLs, and as checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    knobs = {
        "PERIODIC_EXPR_INTERVAL": 1,
        "JOB_EPOCH_HISTORY": "$(LOCAL_DIR)/epochs",
        "POLLING_INTERVAL": 1,
        "PERIODIC_CHECKPOINT": "time() - LastPeriodicCheckpoint >= 4",
    }
    with real_pool(**knobs) as pool:
        yield pool


@pytest.fixture
def home(pool: RealPool, request: pytest.FixtureRequest) -> Path:
    """A directory of the submitting user's for this test."""
    return pool.place(request.node.name.replace("[", "-").replace("]", "")[:80])


def spool_of(pool: RealPool, cluster: int, proc: int = 0) -> Path:
    name = f"cluster{cluster}.proc{proc}.subproc0"
    return pool.directory / "spool" / str(cluster % 10000) / str(proc) / name


def until_fetched(pool: RealPool, cluster: int) -> None:
    pool.until(lambda: not pool.jobs(str(cluster)), f"cluster {cluster} to leave the queue")
    pool.until(lambda: not spool_of(pool, cluster).exists(), "the end of its spool directory")


@pytest.mark.parametrize("should", ["YES", "IF_NEEDED"])
def test_spooled_jobs_need_their_machine_no_more_until_their_output_is_fetched(
    pool: RealPool, home: Path, should: str
) -> None:
    (home / "in").mkdir()
    (home / "in" / "seed").write_text("seed\n")
    (home / "large").write_bytes(b"x" * 3_000_000)
    (home / "grow.sh").write_text(
        "#!/bin/sh\ncat in/seed; wc -c < large; echo wood > tree; mkdir d; echo leaf > d/leaf\n"
    )
    (home / "grow.sh").chmod(0o755)
    (home / "logs").mkdir(mode=0o777)
    (home / "logs").chmod(0o777)
    cluster = pool.submit(
        f"""executable = grow.sh
transfer_input_files = in, large
transfer_output_files = tree, d
transfer_output_remaps = "tree = logs/tree.1"
should_transfer_files = {should}
output = logs/out.$(Process)
log = log
queue 2
""",
        cwd=home,
        options=["-spool"],
    )
    for name in ("in/seed", "large", "grow.sh"):
        (home / name).unlink()
    done = pool.until_status(cluster, COMPLETED, count=2)
    assert all("StageInFinish" in ad and "StageOutFinish" not in ad for ad in done)
    assert not (home / "log").exists()
    assert not (home / "logs" / "out.0").exists()
    assert spool_of(pool, cluster, 1).stat().st_mode & 0o777 == 0o700
    said = pool.tool("condor_transfer_data", f"{cluster}.0", cwd=home)
    assert said == "Fetching data files...\n"
    assert (home / "logs" / "out.0").read_text() == "seed\n3000000\n"
    assert (home / "logs" / "tree.1").read_text() == "wood\n"
    assert (home / "d" / "leaf").read_text() == "leaf\n"
    assert not (home / "logs" / "out.1").exists()
    assert [line[:3] for line in (home / "log").read_text().splitlines() if line[:2] in ("00", "01")][:3] == [
        "000",
        "012",
        "013",
    ]
    pool.tool("condor_transfer_data", "-constraint", f"ClusterId == {cluster}", cwd=home)
    assert (home / "logs" / "out.1").read_text() == "seed\n3000000\n"
    until_fetched(pool, cluster)
    ads = pool.history(str(cluster))
    assert {ad.eval_str("SUBMIT_Iwd") for ad in ads} == {str(home)}
    assert all(ad.eval_int("StageOutFinish", 0) >= ad.eval_int("StageOutStart", 1) for ad in ads)


def test_spooled_files_come_back_as_they_went_many_and_large(pool: RealPool, home: Path) -> None:
    """Too many for the list of names, in packs, and two that go alone."""
    went = {f"small.{n}": bytes([n]) * (30_000 + n) for n in range(80)}
    went |= {"large.0": os.urandom(3_000_000), "large.1": os.urandom(300_000)}
    (home / "d").mkdir()
    for name, data in went.items():
        (home / "d" / name).write_bytes(data)
    cluster = pool.submit(
        """executable = /bin/cp
transfer_executable = false
arguments = -r d e
transfer_input_files = d
transfer_output_files = e
should_transfer_files = YES
queue
""",
        cwd=home,
        options=["-spool"],
    )
    pool.until_status(cluster, COMPLETED)
    (home / "d" / "large.0").unlink()
    pool.tool("condor_transfer_data", str(cluster), cwd=home)
    came = {path.name: path.read_bytes() for path in (home / "e").iterdir()}
    assert came.keys() == went.keys()
    assert [name for name in went if came[name] != went[name]] == []
    until_fetched(pool, cluster)


def test_the_log_of_a_spooled_job_is_there_when_its_input_is(pool: RealPool, home: Path) -> None:
    description = "executable = /bin/true\nrequirements = false\nlog = the.log\nqueue\n"
    cluster = pool.submit(description, cwd=home, options=["-spool"])
    lines = (spool_of(pool, cluster) / "the.log").read_text().splitlines()
    assert [line[:3] for line in lines if line[3:5] == " ("] == ["000", "012", "013"]
    assert "\tSpooling input data files" in lines
    pool.tool("condor_rm", str(cluster))
    pool.tool("condor_transfer_data", str(cluster), cwd=home)
    until_fetched(pool, cluster)


def test_a_spooled_job_whose_input_cannot_be_read_is_not_queued(pool: RealPool, home: Path) -> None:
    description = "executable = /bin/true\ntransfer_input_files = nothere\nqueue\n"
    said = pool.tool("condor_submit", "-spool", "-disable", cwd=home, text=description, check=False)
    assert "submitted to cluster" in said
    pool.until(lambda: not pool.jobs("-constraint", f'SUBMIT_Iwd == "{home}" || Iwd == "{home}"'), "its end")
    assert "nothere" in pool.history("-limit", "1")[0].eval_str("RemoveReason", "")


def test_transfer_data_has_nothing_to_fetch_of_jobs_that_were_not_spooled(pool: RealPool, home: Path) -> None:
    assert pool.tool("condor_transfer_data", "-all", cwd=home) == "Fetching data files...\n"
    assert pool.tool("condor_transfer_data", cwd=home, check=False) == ""
    assert os.listdir(home) == []


COUNTER = """#!/bin/sh
# Counts in a file that it keeps; makes a checkpoint now and then, and waits at a count until it may go on.
n=$(cat count 2>/dev/null || echo 0)
echo "from $n on $(ls -A | grep -c _condor_checkpoint)"
while [ "$n" -lt 4 ]; do
    n=$((n + 1))
    echo "$n" > count
    [ "$n" = 3 ] && while [ ! -e "$GO" ]; do sleep 0.1; done
    [ "$n" -lt 4 ] && [ -n "$CODE" ] && exit "$CODE"
done
exit 0
"""


def a_counter(home: Path) -> None:
    (home / "count.sh").write_text(COUNTER)
    (home / "count.sh").chmod(0o755)


def count_in(file: Path) -> str:
    """How far it is; one that is being removed with its sandbox has none."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""


def until_it_counts_to(pool: RealPool, number: int) -> None:
    def counts() -> bool:
        return any(count_in(path) == str(number) for path in (pool.directory / "execute").glob("dir_*/count"))

    pool.until(counts, f"a job that has come to {number}")


def events(home: Path) -> list[str]:
    lines = (home / "log").read_text().splitlines()
    return [line[:3] for line in lines if line[:3].isdigit() and line[3:5] == " ("]


@pytest.mark.parametrize("where", ["spool", "url"])
def test_a_self_checkpointing_job_goes_on_from_its_last_checkpoint(pool: RealPool, home: Path, where: str) -> None:
    a_counter(home)
    at = f"checkpoint_destination = file://{home}/kept" if where == "url" else ""
    cluster = pool.submit(
        f"""executable = count.sh
environment = "CODE=85 GO={home}/go"
checkpoint_exit_code = 85
transfer_checkpoint_files = count
transfer_output_files = count
should_transfer_files = yes
output = out
log = log
{at}
queue
""",
        cwd=home,
    )
    until_it_counts_to(pool, 3)
    pool.until(lambda: events(home).count("003") == 2, "two checkpoints in the log")
    pool.tool("condor_vacate_job", "-fast", str(cluster))
    pool.until(lambda: events(home).count("001") == 2, "the job to run again")
    (home / "go").touch()
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0
    assert ad.eval_int("NumCkpts") == 3
    assert (home / "count").read_text() == "4\n"
    assert (home / "out").read_text().splitlines() == [f"from {n} on 0" for n in (0, 1, 2, 3)]
    pool.until(lambda: not spool_of(pool, cluster).exists(), "the end of its spool directory")


def test_what_an_evicted_job_had_made_is_there_when_it_runs_again(pool: RealPool, home: Path) -> None:
    a_counter(home)
    cluster = pool.submit(
        f"""executable = count.sh
environment = "GO={home}/go"
when_to_transfer_output = ON_EXIT_OR_EVICT
output = out
log = log
queue
""",
        cwd=home,
    )
    until_it_counts_to(pool, 3)
    assert not (home / "count").exists()
    pool.tool("condor_vacate_job", str(cluster))
    pool.until_done(cluster)
    assert (home / "out").read_text() == "from 3 on 0\n", "standard output begins anew"
    assert (home / "count").read_text() == "4\n"


def test_output_over_the_limit_comes_up_to_the_limit_and_the_job_is_held(pool: RealPool, home: Path) -> None:
    cluster = pool.submit(
        """executable = /bin/sh
arguments = "-c 'head -c 600000 /dev/zero > first; head -c 900000 /dev/zero > second; echo rest > third'"
transfer_output_files = first, second, third
max_transfer_output_mb = 1
should_transfer_files = YES
log = log
queue
""",
        cwd=home,
    )
    (ad,) = pool.until_status(cluster, HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (33, 0)
    assert "sending file second: max total download bytes exceeded (max=1 MB, this file=0 MB)" in ad["HoldReason"]
    sizes = {name: (home / name).stat().st_size for name in ("first", "second")}
    assert sizes == {"first": 600_000, "second": (1 << 20) - 600_000}
    assert not (home / "third").exists()
    pool.tool("condor_rm", str(cluster))


def test_checkpoints_at_a_url_are_removed_when_their_job_has_left(pool: RealPool, home: Path) -> None:
    store = home / "store"
    store.mkdir()
    store.chmod(0o777)
    (pool.directory / "checkpoint-destination-mapfile").write_text(
        f"* file://{store}/ cleanup_locally_mounted_checkpoint,-prefix,\\0,-path,{store}\n"
    )
    script = "n=$(cat at 2>/dev/null || echo 0); echo $((n+1)) > at; [ $n -ge 3 ] || exit 85; while [ ! -e go ]; do sleep 0.1; done"
    cluster = pool.submit(
        f"""executable = /bin/sh
arguments = "-c 'cd . ; {script.replace("go ]", f"{home}/go ]")}'"
checkpoint_exit_code = 85
checkpoint_destination = file://{store}/ann
transfer_checkpoint_files = at
transfer_output_files = at
should_transfer_files = YES
log = log
queue
""",
        cwd=home,
    )
    pool.until(lambda: len(list(store.glob("ann/*/*/at"))) == 3, "three checkpoints")
    (home / "go").touch()
    pool.until_done(cluster)
    aside = pool.directory / "spool" / "checkpoint-cleanup"
    pool.until(lambda: not list(store.glob("ann/*")), "the end of the checkpoints")
    pool.until(lambda: not list(aside.glob(f"*/cluster{cluster}.*")), "the end of their manifests")
    assert (store / "ann").is_dir()


def test_what_plug_ins_move_leaves_a_record_for_each_direction(pool: RealPool, home: Path) -> None:
    (home / "words").write_text("oak elm\n")
    cluster = pool.submit(
        f"""executable = /bin/cp
arguments = words copy
transfer_input_files = file://{home}/words
transfer_output_files = copy
transfer_output_remaps = "copy = file://{home}/kept/copy"
should_transfer_files = YES
queue
""",
        cwd=home,
    )
    pool.until_done(cluster)

    def told(*kinds: str) -> list[str]:
        names = ("TransferClass", "Owner", "NumShadowStarts", "RunInstanceId")
        return pool.tool("condor_history", *kinds, str(cluster), "-af", *names).splitlines()

    pool.until(lambda: len(told("-transfer-history")) == 2, "two records")
    owner = pool.history(str(cluster))[0]["Owner"]
    assert sorted(told("-transfer-history")) == [f"INPUT {owner} 1 0", f"OUTPUT {owner} 1 0"]
    assert told("-transfer-history:o") == [f"OUTPUT {owner} 1 0"]
    (path,) = pool.tool(
        "condor_history", "-transfer-history:i", str(cluster), "-af", "InputPluginResultList[0].TransferUrl"
    ).split()
    assert path == f"file://{home}/words"


def test_a_job_that_makes_checkpoints_at_a_signal_gets_it_as_the_owner_says(pool: RealPool, home: Path) -> None:
    (home / "grow.sh").write_text(
        "#!/bin/sh\ntrap 'echo $((n+1)) > at; exit 85' USR2\nn=$(cat at 2>/dev/null || echo 0)\n"
        "while [ $n -lt 1 ]; do sleep 0.1; done\n"
    )
    (home / "grow.sh").chmod(0o755)
    cluster = pool.submit(
        """executable = grow.sh
+WantCheckpointSignal = true
+CheckpointSig = "SIGUSR2"
checkpoint_exit_code = 85
transfer_checkpoint_files = at
transfer_output_files = at
should_transfer_files = YES
log = log
queue
""",
        cwd=home,
    )
    (ad,) = pool.until_done(cluster)
    assert (ad["ExitCode"], ad["NumCkpts"]) == (0, 1)
    assert (home / "at").read_text() == "1\n"
    assert (home / "log").read_text().count("Job was checkpointed") == 1


@pytest.mark.parametrize("when", ["ON_EXIT", "ON_EXIT_OR_EVICT"])
def test_a_removed_job_leaves_its_output_where_that_is_wanted(pool: RealPool, home: Path, when: str) -> None:
    (home / "job.sh").write_text("#!/bin/sh\necho begun\necho made > made\ntouch ready\nsleep 3600 & wait\n")
    (home / "job.sh").chmod(0o755)
    text = f"executable = job.sh\nshould_transfer_files = YES\nwhen_to_transfer_output = {when}\n"
    cluster = pool.submit(f"{text}transfer_output_files = made\noutput = out\nlog = log\nqueue\n", cwd=home)
    pool.until_status(cluster, RUNNING)
    pool.until(lambda: "ready" in pool.tool("condor_ssh_to_job", str(cluster), "ls", check=False), "what it makes")
    said = pool.tool("condor_rm", "-transfer", f"{cluster}.0")
    assert said == f"Job {cluster}.0 marked for removal after file transfer\n"
    pool.until(lambda: not pool.jobs(str(cluster)), "its end")
    assert (home / "made").read_text() == "made\n"
    assert (home / "out").read_text() == "begun\n"
    (ad,) = pool.history(str(cluster))
    assert ad.eval_int("JobStatus") == 3
    assert (ad.eval_str("RemoveReason") or "").startswith("via condor_rm -transfer (by user ")


def test_a_waiting_job_is_removed_with_transfer_as_without(pool: RealPool, home: Path) -> None:
    cluster = pool.submit("executable = /bin/true\nhold = true\nqueue\n", cwd=home)
    assert pool.tool("condor_rm", "-transfer", str(cluster)) == (
        f"All jobs in cluster {cluster} have been marked for removal after file transfer\n"
    )
    pool.until(lambda: not pool.jobs(str(cluster)), "its end")
