"""Named tuples are those of `typing`, whatever they cost: each case here holds for both."""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from pool import hints, named_tuple


class Ours(hints.NamedTuple):
    """Two fields, one with a default."""

    x: int
    y: str = "why"

    @property
    def twice(self) -> int:
        return self.x * 2

    @classmethod
    def of(cls, x: int) -> Ours:
        return cls(x)

    def __str__(self) -> str:
        return f"x is {self.x}"


class Theirs(typing.NamedTuple):
    """Two fields, one with a default."""

    x: int
    y: str = "why"

    @property
    def twice(self) -> int:
        return self.x * 2

    @classmethod
    def of(cls, x: int) -> Theirs:
        return cls(x)

    def __str__(self) -> str:
        return f"x is {self.x}"


class Below(Ours):
    """A class below."""

    __slots__ = ()


SAME: dict[str, Callable[[Any], object]] = {
    "positions": lambda cls: tuple(cls(1, "b")),
    "names": lambda cls: tuple(cls(y="b", x=1)),
    "default": lambda cls: cls(1).y,
    "property": lambda cls: cls(4).twice,
    "class method": lambda cls: cls.of(3).x,
    "text": lambda cls: str(cls(3)),
    "shown": lambda cls: repr(cls(3)).replace(cls.__name__, ""),
    "equal to a tuple": lambda cls: cls(1, "b") == (1, "b"),
    "hash": lambda cls: hash(cls(1)) == hash((1, "why")),
    "replaced": lambda cls: tuple(cls(1)._replace(y="z")),
    "as a dict": lambda cls: cls(1)._asdict(),
    "made": lambda cls: tuple(cls._make([1, 2])),
    "fields": lambda cls: cls._fields,
    "defaults": lambda cls: cls._field_defaults,
    "doc": lambda cls: cls.__doc__,
    "matched by position": lambda cls: cls.__match_args__,
    "no dict": lambda cls: hasattr(cls(1), "__dict__"),
    "a tuple": lambda cls: (isinstance(cls(1), tuple), cls.__bases__),
    "pickled": lambda cls: type(pickle.loads(pickle.dumps(cls(1)))) is cls,
    "copied": lambda cls: copy.deepcopy(cls(1)) == cls(1),
}


@pytest.mark.parametrize("what", SAME)
def test_it_is_as_that_of_typing(what: str) -> None:
    assert SAME[what](Ours) == SAME[what](Theirs)


WRONG: dict[str, Callable[[Any], object]] = {
    "missing": lambda cls: cls(),
    "too many": lambda cls: cls(1, 2, 3),
    "unknown": lambda cls: cls(1, z=1),
    "replaced unknown": lambda cls: cls(1)._replace(z=1),
    "made of too few": lambda cls: cls._make([1]),
    "frozen": lambda cls: setattr(cls(1), "x", 2),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_refuses_what_that_of_typing_refuses(what: str) -> None:
    errors = []
    for cls in (Ours, Theirs):
        with pytest.raises((TypeError, ValueError, AttributeError)) as error:
            WRONG[what](cls)
        errors.append((error.type, str(error.value).replace(cls.__name__, "")))
    assert errors[0] == errors[1]


def test_a_class_below_makes_its_own_values() -> None:
    assert (type(Below(1)), Below(1).y, type(Below(1)._replace(x=2))) == (Below, "why", Below)


def test_constructors_are_compiled_at_first_use_or_all_at_once() -> None:
    class Fresh(hints.NamedTuple):
        a: int

    class Other(hints.NamedTuple):
        a: int

    first: Any = Fresh.__new__
    assert first is named_tuple._first_new
    assert Fresh(1).a == 1
    assert Fresh.__new__ is not first
    named_tuple.compile_all()
    assert Other.__new__ is not first


def test_a_field_without_default_may_not_follow_one_with_a_default() -> None:
    with pytest.raises(TypeError, match="without default"):
        exec("class Bad(NamedTuple):\n    a: int = 1\n    b: int", {"NamedTuple": hints.NamedTuple, "__name__": "x"})
