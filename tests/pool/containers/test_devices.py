"""Which GPUs' device files are a slot's own."""

from __future__ import annotations

import pytest

from pool.containers.devices import others_gpus

NUMBERS = {"GPU-aaaa": 1, "GPU-bbbb": 0}
PRESENT = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"]


@pytest.mark.parametrize(
    ("assigned", "others"),
    [
        ("CUDA0", ("/dev/nvidia1", "/dev/nvidia2")),
        ("CUDA0, CUDA2", ("/dev/nvidia1",)),
        ("GPU-aa", ("/dev/nvidia0", "/dev/nvidia2")),
        ("", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2")),
        ("MIG-1234", ()),
        ("CUDA0,GPU-zzzz", ()),
    ],
)
def test_those_of_others_are_hidden_where_it_is_known_which_they_are(assigned: str, others: tuple[str, ...]) -> None:
    assert others_gpus(PRESENT, assigned, NUMBERS) == others
