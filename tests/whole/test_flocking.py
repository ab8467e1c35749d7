"""Jobs that find no slot in their pool run in another that lends to it. Real daemons, pools with CAs of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.flocks import FlockHost, flocking_pools

SLEEP = "executable = /bin/sleep\n"


@pytest.fixture(scope="module")
def two() -> Iterator[dict[str, FlockHost]]:
    """Pool `a` flocks to pool `b`, which lends to it."""
    with flocking_pools({"a": ["b"], "b": []}) as pools:
        yield pools


def test_a_job_without_a_slot_at_home_runs_in_the_other_pool(two: dict[str, FlockHost]) -> None:
    a, b = two["a"], two["b"]
    at_home = a.submit(f"{SLEEP}arguments = 600\nqueue 2\n")
    a.until_status(at_home, 2, count=2)
    away = a.submit(
        f"{SLEEP}arguments = 600\noutput = {a.place('out')}/$(Process)\nshould_transfer_files = yes\n"
        "when_to_transfer_output = on_exit\nqueue\n"
    )
    (job,) = a.until_status(away, 2)
    assert job.eval_str("RemotePool") == b.where_it_was
    assert job.eval_str("RemoteHost", "").endswith(b.name)
    a.tool("condor_rm", "-all")
    a.until(lambda: not a.jobs(), "the end of all jobs")
