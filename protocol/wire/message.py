"""What travels between processes: frozen, typed, keyword-only records, each declared once as a class.

A `Record` is a value. A `Message` is a record that can be named alone, by its tag: a notice that expects no answer. A
`Request[R]` is a message answered by one `R`; a `StreamRequest[I]` is answered by any number of `I`. The type of each
field drives its encoding, and is checked when it is decoded, so that a handler never does:

    bool int float str bytes None      as themselves (an int where a float is wanted becomes one)
    list[T] tuple[T, ...] set[T] frozenset[T] dict[str, T] NamedTuple
    Enum Literal                       by value
    T | None, unions                   the first member that fits; several records must be messages, told apart by tag
    Record                             as a map; fields that are not known are ignored, so that a type may grow
    Message                            any message at all, with its tag
    ClassAd, Expr and other ClassAd values; JobId, ClaimId

A field which is missing takes its default; one without default is refused by name. Declaring a class costs next to
nothing: hints are resolved, and the plan that encodes and decodes made, when a class is first sent or received. Tools
start fast because they use few of the messages that they import; records that never travel resolve no hints at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from protocol.wire.kinds import RecordPlan

R_co = TypeVar("R_co", covariant=True)
I_co = TypeVar("I_co", covariant=True)


class _Missing:
    """Stands for a field without default, and for a value that was not sent."""


MISSING: Final = _Missing()


class _Factory:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default: Any = MISSING, default_factory: Callable[[], Any] | None = None) -> Any:
    """A field whose default is made by calling `default_factory`; plain defaults need no `field`."""
    return _Factory(default_factory) if default_factory is not None else default


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=True, field_specifiers=(field,))
class Record:
    """A frozen value with named, typed fields; subclass it and annotate the fields."""

    _shape: ClassVar[Shape | None] = None
    _plan: ClassVar[RecordPlan | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._shape = cls._plan = None  # never those of the class above

    def __init__(self, **values: Any) -> None:
        shape = type(self)._shape or shape_of(type(self))
        if values.keys() != shape.defaults.keys():
            values = shape.complete(values)
        object.__setattr__(self, "__dict__", values)
        if shape.check is not None:
            shape.check(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; use replace(record, {name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.__dict__[name] for name in shape_of(type(self)).defaults)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in shape_of(type(self)).defaults)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


_R = TypeVar("_R", bound=Record)


class Done(Record):
    """The answer of a request that has nothing more to say."""


class Message(Record):
    """A record with a tag of its own: one-way when it is sent alone."""

    tag: ClassVar[str] = ""

    def __init_subclass__(cls, *, tag: str = "") -> None:
        super().__init_subclass__()
        if tag:
            known = MESSAGES.setdefault(tag, cls)
            # A module that a test reloads declares its messages again.
            if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"{cls.__qualname__} and {known.__qualname__} both have the tag {tag!r}")
            MESSAGES[tag] = cls
        cls.tag = tag


MESSAGES: Final[dict[str, type[Message]]] = {}
"""Every message whose module was imported, by tag."""


class Request(Message, Generic[R_co]):
    """A message that is answered once, with an `R`; `Request[Done]` where there is nothing to say."""


class StreamRequest(Message, Generic[I_co]):
    """A message that is answered with items of type `I`, until either side ends the stream."""


def replace(record: _R, **changes: Any) -> _R:
    """A copy of `record` with some fields changed."""
    return type(record)(**{**record.__dict__, **changes})


class Shape:
    """The fields of a record class and their defaults; hints are not resolved for it."""

    __slots__ = ("check", "defaults", "hints", "made", "name", "plain")

    def __init__(self, cls: type[Record], hints: dict[str, tuple[Any, type]]) -> None:
        self.name = cls.__qualname__
        self.hints = hints  # as written, and the class that wrote it
        self.defaults: dict[str, Any] = {name: getattr(cls, name, MISSING) for name in hints}
        self.check: Callable[[Any], None] | None = getattr(cls, "__post_init__", None)
        self.made = [name for name, default in self.defaults.items() if isinstance(default, _FRESH)]
        self.plain = {
            name: default for name, default in self.defaults.items() if default is not MISSING and name not in self.made
        }
        """The defaults that all records share; the others are made for each."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a constructor with the defaults of what they lack."""
        whole = {**self.plain, **values}
        for name in self.made:
            if name not in whole:
                whole[name] = fresh(self.defaults[name])
        if whole.keys() != self.defaults.keys():
            raise self._misfit(whole)
        return whole

    def _misfit(self, values: dict[str, Any]) -> TypeError:
        if unknown := values.keys() - self.defaults.keys():
            return TypeError(f"{self.name} has no field {', '.join(sorted(unknown))}")
        return TypeError(f"{self.name} needs {', '.join(name for name in self.defaults if name not in values)}")


_FRESH: Final = (_Factory, list, dict, set)
"""The defaults that could be changed."""


def fresh(default: Any) -> Any:
    """A field's default, new where it could be changed."""
    if isinstance(default, _Factory):
        return default.make()
    return default.copy() if isinstance(default, list | dict | set) else default


def _rebuild(cls: type[Record], values: dict[str, Any]) -> Record:
    return cls(**values)


def shape_of(cls: type[Record]) -> Shape:
    shape = cls._shape
    if shape is None:
        hints: dict[str, tuple[Any, type]] = {}
        for base in reversed(cls.__mro__):
            if base is not Record and issubclass(base, Record):
                for name, hint in _own_annotations(base).items():
                    if not str(hint).startswith(("ClassVar", "typing.ClassVar")):
                        hints[name] = (hint, base)
        shape = cls._shape = Shape(cls, hints)
    return shape


def _own_annotations(cls: type) -> dict[str, Any]:
    """The class's own annotations, as they were written (the inspect module would cost tools 10 ms)."""
    own: dict[str, Any] = vars(cls).get("__annotations__", {})
    return own


DONE: Final = Done()
"""What a handler of a `Request[Done]` returns."""
