"""DISABLE_SETUID: set-user-id programs give no rights to the pool's processes, nor to jobs."""

from __future__ import annotations

import pytest

from tests.whole.real_pool import real_pool

JOB = """executable = /bin/grep
arguments = NoNewPrivs /proc/self/status
transfer_executable = false
output = $(universe)
queue
"""


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_job_gains_rights_by_set_user_id_programs_unless_disable_setuid_says_no(value: str) -> None:
    with real_pool(DISABLE_SETUID=value) as pool:
        home = pool.place("home")
        universes = ("vanilla", "local", "scheduler")
        for cluster in [pool.submit(f"universe = {universe}\n{JOB}", cwd=home) for universe in universes]:
            pool.until_done(cluster)
        found = {universe: (home / universe).read_text().split()[1] for universe in universes}
        assert found == dict.fromkeys(universes, "1" if value == "true" else "0")
