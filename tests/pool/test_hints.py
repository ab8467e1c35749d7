"""What hints say when somebody does evaluate them."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from pool import hints


@pytest.mark.parametrize("name", [name for name in hints.__all__ if hasattr(typing, name)])
def test_every_name_is_one_of_typings(name: str) -> None:
    assert hasattr(hints, name)


def test_a_hint_knows_its_parts() -> None:
    choice: Any = hints.Literal["a", "b"]
    assert (choice.__origin__, choice.__args__) == (hints.Literal, ("a", "b"))
    either: Any = hints.Union[int, str]  # noqa: UP007
    assert (either.__origin__, either.__args__) == (hints.Union, (int, str))
    joined: Any = choice | None
    assert (str(joined.__origin__), joined.__args__) == ("Union", (choice, None))


def test_a_generic_class_remembers_with_what_it_was_made() -> None:
    variable = hints.TypeVar("variable")

    class Box(hints.Generic[variable]):  # type: ignore[valid-type,misc]
        pass

    class Numbers(Box[int]):  # type: ignore[type-arg]
        pass

    (base,) = vars(Numbers)["__orig_bases__"]
    assert (base.__origin__, base.__args__) == (Box, (int,))


def test_what_only_type_checkers_need_changes_nothing() -> None:
    assert hints.cast(int, "text") == "text"  # type: ignore[comparison-overlap]

    @hints.final
    class Last:
        pass

    assert Last.__name__ == "Last"
