"""The names that types are written with, for modules that tools import: `from pool.hints import Any, NamedTuple`.

A type checker sees those of `typing`, `collections.abc`, `enum` and `re` here. What runs is next to nothing, for nobody
evaluates an annotation: importing `typing`, and all that it needs, takes as long as starting the interpreter, and was a
third of what `condor_q` took. A hint that is evaluated (those of messages are, by `protocol.kinds`) knows its parts,
as `__origin__` and `__args__`.

A module which makes dataclasses takes `ClassVar` from `typing`, by which dataclasses know it.
"""

from __future__ import annotations

from _collections_abc import (  # of which `collections.abc` is the public name: imported already, as `os` needs it
    Awaitable,
    Callable,
    Collection,
    Container,
    Coroutine,
    Generator,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Reversible,
    Sequence,
    Set,
    Sized,
    ValuesView,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from enum import StrEnum
    from re import Match, Pattern
    from typing import (
        IO,
        Any,
        ClassVar,
        Final,
        Generic,
        Literal,
        NamedTuple,
        NoReturn,
        Protocol,
        Self,
        TextIO,
        TypeAlias,
        TypeVar,
        Union,
        cast,
        dataclass_transform,
        final,
        overload,
    )
else:
    from pool.named_tuple import NamedTuple
    from pool.str_enum import StrEnum

    class _Hint:
        """A name of `typing`; with parts, what it was subscripted with or joined to."""

        __slots__ = ("__args__", "__origin__", "name")

        def __init__(self, name, origin=None, args=()):
            self.name, self.__origin__, self.__args__ = name, origin, args

        def __getitem__(self, args):
            return _Hint(self.name, self, args if type(args) is tuple else (args,))

        def __or__(self, other):
            return _Hint("Union", Union, (self, other))

        def __ror__(self, other):
            return _Hint("Union", Union, (other, self))

        def __repr__(self):
            return f"{self.name}[{', '.join(map(repr, self.__args__))}]" if self.__args__ else self.name

    class TypeVar(_Hint):
        """As in `typing`: a name that stands for a type."""

        __slots__ = ()

        def __init__(self, name, *constraints, **rest):
            super().__init__(name)

    class Generic:
        """Makes a class subscriptable; the classes below it remember with what (`__orig_bases__`)."""

        __slots__ = ()
        __class_getitem__ = classmethod(type(list[int]))

    class Protocol(Generic):
        """Says what others look like; does nothing by itself."""

        __slots__ = ()

    Any, ClassVar, Final, IO, Literal, Match = map(_Hint, ("Any", "ClassVar", "Final", "IO", "Literal", "Match"))
    NoReturn, Pattern, Self, TextIO = map(_Hint, ("NoReturn", "Pattern", "Self", "TextIO"))
    TypeAlias, Union = map(_Hint, ("TypeAlias", "Union"))

    def _same(what):
        return what

    final = overload = _same

    def cast(kind, value):
        """The value."""
        return value

    def dataclass_transform(**says):
        """For type checkers only."""
        return _same


__all__ = [
    "IO",
    "TYPE_CHECKING",
    "Any",
    "Awaitable",
    "Callable",
    "ClassVar",
    "Collection",
    "Container",
    "Coroutine",
    "Final",
    "Generator",
    "Generic",
    "Hashable",
    "ItemsView",
    "Iterable",
    "Iterator",
    "KeysView",
    "Literal",
    "Mapping",
    "Match",
    "MutableMapping",
    "MutableSequence",
    "MutableSet",
    "NamedTuple",
    "NoReturn",
    "Pattern",
    "Protocol",
    "Reversible",
    "Self",
    "Sequence",
    "Set",
    "Sized",
    "StrEnum",
    "TextIO",
    "TypeAlias",
    "TypeVar",
    "Union",
    "ValuesView",
    "cast",
    "dataclass_transform",
    "final",
    "overload",
]
