"""Whether a machine can have CRIU, as far as that is seen before it is tried."""

from __future__ import annotations

from pathlib import Path

from daemons.startd.machine.criu_trial import find_criu
from pool.execute import criu

from .test_inventory import configured


def test_a_machine_that_marks_jobs_by_group_ids_says_that_they_cannot_move(tmp_path: Path) -> None:
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = find_criu(configured(tmp_path, f"CRIU = {program}", "USE_GID_PROCESS_TRACKING = true"))
    assert found.attributes()["HasCriu"] is False
    assert str(found.attributes()["CriuProblem"]).startswith("USE_GID_PROCESS_TRACKING gives each run another group id")


def test_the_reason_that_is_told_is_the_first_error_of_any_process_that_criu_makes() -> None:
    log = "Warn  (criu/kerndat.c:1285): no cache\n   301: Error (criu/files-reg.c:2256): Can't open file x\nError (criu/cr-restore.c:2): Restoring FAILED.\n"
    assert criu.reason(log) == "Can't open file x"


def test_a_criu_that_cannot_do_without_roots_rights_is_too_old() -> None:
    said = "/usr/sbin/criu: unrecognized option '--unprivileged'\n\nUsage:\n  criu dump|pre-dump -t PID [<options>]\n"
    assert criu.reason(said) == "this CRIU is too old: it does not know --unprivileged"
