"""What belongs into the directories of daemons, and what does not."""

from __future__ import annotations

from pathlib import Path

from pool.config import load_config
from pool.hosts.preen import in_execute, rules


def test_what_nobody_looks_after_does_not_belong_into_spool(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        f"SPOOL = {tmp_path}/spool\nHISTORY = $(SPOOL)/done/jobs\nVALID_SPOOL_FILES = keep, site.*\n"
        "INVALID_LOG_FILES = core, *.tmp\n"
    )
    found = rules(load_config([str(tmp_path / "config")], environ={}))
    ours = [
        "17",
        "job_queue.sqlite-wal",
        "users.json",
        "done",
        "accountant.db-wal",
        "local_univ_execute",
        "epoch_history",
    ]
    assert found.in_spool([*ours, "keep", "site.local", "junk", "core.7", "keeper"]) == ["junk", "core.7", "keeper"]
    assert found.in_log(["StartLog", "core", "x.tmp", "core.7"]) == ["core", "x.tmp"]


def test_sandboxes_whose_starters_are_gone_do_not_belong_into_execute() -> None:
    names = ["dir_1", "dir_2", "dir_3", "dir_x", "mine"]
    assert in_execute(names, lambda pid: pid == 1, busy={"dir_3"}) == ["dir_2"]
