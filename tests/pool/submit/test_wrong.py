"""A wrong description of every kind is refused with the place of what is wrong, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.errors import SubmitError
from tests.pool.submit.build import CASES, Place

LINES = [line for line in (CASES / "wrong.cases").read_text().splitlines() if line and not line.startswith("#")]
PLAIN = "executable = job.sh\n"


@pytest.mark.parametrize("case", LINES)
def test_it_is_refused_with_its_place(place: Place, case: str) -> None:
    line, message, text = (part.strip(" ") for part in case.split("|", 2))
    with pytest.raises(SubmitError) as caught:
        place.ads(PLAIN + text.replace("\\n", "\n") + "\n")
    error = caught.value
    assert message.lower() in str(error).lower()
    assert error.span is not None, error
    assert (error.span.file, error.span.line) == ("t.sub", int(line)), error


def test_a_description_that_cannot_be_read_names_itself(place: Place) -> None:
    assert not Path(place.where, "missing").exists()
    with pytest.raises(SubmitError, match=r"t\.sub:2"):
        place.ads(PLAIN + "queue x from missing\n")
