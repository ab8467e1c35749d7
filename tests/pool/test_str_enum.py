"""StrEnum is that of `enum`, whatever it costs: each case here holds for both."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pool import hints


class Ours(hints.StrEnum):
    """Two words."""

    RED = "red"
    DARK_BLUE = "dark blue"

    @property
    def loud(self) -> str:
        return self.value.upper()


class Theirs(enum.StrEnum):
    """Two words."""

    RED = "red"
    DARK_BLUE = "dark blue"

    @property
    def loud(self) -> str:
        return self.value.upper()


SAME: dict[str, Callable[[Any], object]] = {
    "value": lambda cls: cls.RED.value,
    "name": lambda cls: cls.DARK_BLUE.name,
    "text": lambda cls: (str(cls.RED), f"{cls.RED}", f"{cls.RED:>5}"),
    "shown": lambda cls: repr(cls.RED).replace(cls.__name__, ""),
    "by value": lambda cls: cls("red") is cls.RED,
    "by name": lambda cls: cls["RED"] is cls.RED,
    "all": lambda cls: [one.name for one in cls],
    "count": lambda cls: len(cls),
    "members": lambda cls: list(cls.__members__),
    "a member in it": lambda cls: cls.RED in cls,
    "equal to its text": lambda cls: cls.RED == "red",
    "hash": lambda cls: {cls.RED: 1}["red"],
    "kind": lambda cls: (isinstance(cls.RED, cls), isinstance(cls.RED, str)),
    "property": lambda cls: cls.RED.loud,
    "pickled": lambda cls: pickle.loads(pickle.dumps(cls.RED)) is cls.RED,
    "copied": lambda cls: (copy.copy(cls.RED) is cls.RED, copy.deepcopy(cls.RED) is cls.RED),
    "json": lambda cls: json.dumps({"colour": cls.RED}),
    "doc": lambda cls: cls.__doc__,
}


@pytest.mark.parametrize("what", SAME)
def test_it_is_as_that_of_enum(what: str) -> None:
    assert SAME[what](Ours) == SAME[what](Theirs)


@pytest.mark.parametrize("value", ["pink", "RED", 1, None])
def test_it_refuses_other_values_in_the_same_words(value: Any) -> None:
    said = []
    for cls in (Ours, Theirs):
        with pytest.raises(ValueError) as error:
            cls(value)
        said.append(str(error.value).replace(cls.__name__, ""))
    assert said[0] == said[1]


def test_members_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Ours.RED.value = "pink"  # type: ignore[misc]
