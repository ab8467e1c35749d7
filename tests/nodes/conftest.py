"""The fixture that hands each test its own pool of containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.nodes.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Containers that the test starts; all of them are removed after it, whatever happened."""
    from tests.nodes.cluster import new_cluster  # the container engine's client is for these tests alone

    with new_cluster() as cluster:
        yield cluster
