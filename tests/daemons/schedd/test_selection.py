"""Which jobs a selection means."""

from __future__ import annotations

import pytest

from daemons.schedd.core.selection import Chosen
from pool.base.errors import UserError
from protocol.messages.schedd import Selection


def test_ids_name_clusters_and_jobs() -> None:
    chosen = Chosen.read(Selection(ids=["12", "7.1"]))
    assert (chosen.clusters, chosen.jobs) == ({12}, {(7, 1)})


@pytest.mark.parametrize("text", ["²", "9" * 5000, "1.2.3"])
def test_what_is_no_id_is_said_to_be_none(text: str) -> None:
    with pytest.raises(UserError, match="is not a job id"):
        Chosen.read(Selection(ids=[text]))
