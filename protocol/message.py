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

import sys
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from pool.errors import PeerError, PoolError

_T = TypeVar("_T")
_R = TypeVar("_R", bound="Record")
R_co = TypeVar("R_co", covariant=True)
I_co = TypeVar("I_co", covariant=True)


class _Missing:
    """Stands for a field without default, and for a value that was not sent."""


_MISSING: Final = _Missing()


class _Factory:
    """A default that is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default: Any = _MISSING, default_factory: Callable[[], Any] | None = None) -> Any:
    """A field whose default is made by calling `default_factory`; plain defaults need no `field`."""
    return _Factory(default_factory) if default_factory is not None else default


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=True, field_specifiers=(field,))
class Record:
    """A frozen value with named, typed fields; subclass it and annotate the fields."""

    _shape: ClassVar[_Shape | None] = None
    _plan: ClassVar[_Plan | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._shape = cls._plan = None  # never those of the class above

    def __init__(self, **values: Any) -> None:
        shape = type(self)._shape or _shape_of(type(self))
        if len(values) != len(shape.defaults) or values.keys() != shape.defaults.keys():
            shape.complete(values)
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
        return hash((type(self), tuple(self.__dict__[name] for name in _shape_of(type(self)).defaults)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in _shape_of(type(self)).defaults)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


class Done(Record):
    """The answer of a request that has nothing more to say."""


class Message(Record):
    """A record with a tag of its own: one-way when it is sent alone."""

    tag: ClassVar[str] = ""

    def __init_subclass__(cls, *, tag: str = "") -> None:
        super().__init_subclass__()
        if tag:
            known = MESSAGES.setdefault(tag, cls)
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


def fields_of(cls: type[Record]) -> Mapping[str, str]:
    """Each field's name and, in words, what it holds; for documentation."""
    return {name: kind.says for name, kind in _plan_of(cls).kinds.items()}


# Encoding and decoding: to and from what msgpack and `codec` know, which is maps, lists, scalars and ClassAd values.


def encode(record: Record) -> dict[str, Any]:
    """The record's fields as a map of encodable values."""
    plan = _plan_of(type(record))
    values: dict[str, Any] = record.__dict__
    if not plan.encoders:
        return values
    values = dict(values)
    for name, encoder in plan.encoders:
        values[name] = encoder(values[name])
    return values


def decode(cls: type[_R], raw: object) -> _R:
    """A record from a decoded map; PeerError names the message and the field that are wrong."""
    try:
        return _decode(cls, raw)
    except _Bad as bad:
        raise PeerError(f"{_name(cls)}: {bad}") from None
    except RecursionError:
        raise PeerError(f"{_name(cls)}: nested too deeply") from None


def encode_answer(request: type[Message], value: object) -> Any:
    """The answer (or one item) to a request of this class, as an encodable value."""
    encoder = _answer_of(request).encode
    return value if encoder is None else encoder(value)


def decode_answer(request: type[Message], raw: object) -> Any:
    """The answer (or one item) to a request of this class; PeerError when it is not what was promised."""
    kind = _answer_of(request)
    try:
        return raw if type(raw) is kind.fast else kind.decode(raw)
    except _Bad as bad:
        raise PeerError(f"answer to {_name(request)}: {bad}") from None
    except RecursionError:
        raise PeerError(f"answer to {_name(request)}: nested too deeply") from None


class _Bad(Exception):
    """A value that is not what its type says; grows the path to it on the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = ""

    def within(self, step: str) -> _Bad:
        """The same fault, seen from one level further out."""
        self.path = f"{step}{self.path}" if self.path.startswith("[") or not self.path else f"{step}.{self.path}"
        return self

    def __str__(self) -> str:
        return f"field {self.path}: {self.message}" if self.path else self.message


class _Kind:
    """How values of one type are encoded (None: as they are) and decoded.

    `fast` is the type that needs no decoding; `takes` are the Python types that `encode` is for.
    """

    __slots__ = ("decode", "encode", "fast", "records", "says", "takes")

    def __init__(
        self,
        says: str,
        decode: Callable[[Any], Any],
        encode: Callable[[Any], Any] | None = None,
        *,
        fast: type | None = None,
        takes: type | tuple[type, ...] = (),
        records: tuple[type[Record], ...] = (),
    ) -> None:
        self.says, self.decode, self.encode, self.fast = says, decode, encode, fast
        self.takes, self.records = takes or records, records


class _Shape:
    """The fields of a record class and their defaults; hints are not resolved for it."""

    __slots__ = ("check", "defaults", "hints", "name")

    def __init__(self, cls: type[Record], hints: dict[str, tuple[Any, type]]) -> None:
        self.name = cls.__qualname__
        self.hints = hints  # as written, and the class that wrote it
        self.defaults: dict[str, Any] = {name: getattr(cls, name, _MISSING) for name in hints}
        self.check: Callable[[Any], None] | None = getattr(cls, "__post_init__", None)

    def complete(self, values: dict[str, Any]) -> None:
        """Add the defaults to the arguments of a constructor."""
        if unknown := values.keys() - self.defaults.keys():
            raise TypeError(f"{self.name} has no field {', '.join(sorted(unknown))}")
        missing = []
        for name, default in self.defaults.items():
            if name not in values:
                if default is _MISSING:
                    missing.append(name)
                values[name] = _fresh(default)
        if missing:
            raise TypeError(f"{self.name} needs {', '.join(missing)}")


class _Plan:
    """How a record class is encoded and decoded, once its hints are resolved."""

    __slots__ = ("decoders", "encoders", "kinds")

    def __init__(self, kinds: dict[str, _Kind], defaults: Mapping[str, Any]) -> None:
        self.kinds = kinds
        self.encoders = [(name, kind.encode) for name, kind in kinds.items() if kind.encode is not None]
        self.decoders = [(name, kind.fast, kind.decode, defaults[name]) for name, kind in kinds.items()]


def _fresh(default: Any) -> Any:
    """A field's default, new where it could be changed."""
    if isinstance(default, _Factory):
        return default.make()
    return default.copy() if isinstance(default, list | dict | set) else default


def _decode(cls: type[_R], raw: object) -> _R:
    if type(raw) is not dict:
        raise _Bad(f"expected a map, got {_shown(raw)}")
    plan = _plan_of(cls)
    values: dict[str, Any] = {}
    for name, fast, decode_value, default in plan.decoders:
        value = raw.get(name, _MISSING)
        if type(value) is fast:
            values[name] = value
        elif value is _MISSING:
            if default is _MISSING:
                raise _Bad("is missing").within(name)
            values[name] = _fresh(default)
        else:
            try:
                values[name] = decode_value(value)
            except _Bad as bad:
                raise bad.within(name) from None
    record = object.__new__(cls)
    object.__setattr__(record, "__dict__", values)
    check = _shape_of(cls).check
    if check is not None:
        try:
            check(record)
        except PoolError as error:
            raise _Bad(str(error)) from None
    return record


def _rebuild(cls: type[Record], values: dict[str, Any]) -> Record:
    return cls(**values)


def _name(cls: type[Record]) -> str:
    return getattr(cls, "tag", "") or cls.__name__


def _shown(value: object) -> str:
    """A short picture of a wrong value, safe to put into a log."""
    if isinstance(value, dict | list):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:30]}..."


# Resolving hints into plans.


def _shape_of(cls: type[Record]) -> _Shape:
    shape = cls._shape
    if shape is None:
        hints: dict[str, tuple[Any, type]] = {}
        for base in reversed(cls.__mro__):
            if base is not Record and issubclass(base, Record):
                for name, hint in _own_annotations(base).items():
                    if not str(hint).startswith(("ClassVar", "typing.ClassVar")):
                        hints[name] = (hint, base)
        shape = cls._shape = _Shape(cls, hints)
    return shape


def _plan_of(cls: type[Record]) -> _Plan:
    plan = cls._plan
    if plan is None:
        shape = _shape_of(cls)
        kinds = {}
        for name, (hint, owner) in shape.hints.items():
            where = f"{owner.__qualname__}.{name}"
            kinds[name] = _kind(_resolve(hint, owner, where), where)
        plan = cls._plan = _Plan(kinds, shape.defaults)
    return plan


def _own_annotations(cls: type) -> dict[str, Any]:
    """The class's own annotations, as they were written (the inspect module would cost tools 10 ms)."""
    own: dict[str, Any] = vars(cls).get("__annotations__", {})
    return own


def _resolve(hint: Any, owner: type, where: str) -> Any:
    """The type that an annotation means, in the namespace of the module that wrote it."""
    if not isinstance(hint, str):
        return hint
    space = vars(sys.modules[owner.__module__])
    try:
        return eval(hint, space, {owner.__name__: owner})
    except NameError as error:
        raise TypeError(f"{where}: {error}") from None


_answers: dict[type[Message], _Kind] = {}


def _answer_of(request: type[Message]) -> _Kind:
    kind = _answers.get(request)
    if kind is None:
        kind = _answers[request] = _kind(*_answer_hint(request))
    return kind


def _answer_hint(request: type[Message]) -> tuple[Any, str]:
    where = f"the answer of {request.__qualname__}"
    for cls in request.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) in (Request, StreamRequest):
                hint = get_args(base)[0]
                hint = hint.__forward_arg__ if hasattr(hint, "__forward_arg__") else hint
                if not isinstance(hint, TypeVar):
                    return _resolve(hint, cls, where), where
    raise TypeError(f"{request.__qualname__} is not a Request[...] or StreamRequest[...]")


def _exactly(kind: type) -> _Kind:
    def refuse(value: object) -> Any:
        raise _Bad(f"expected {kind.__name__}, got {_shown(value)}")

    return _Kind(kind.__name__, refuse, fast=kind)


def _float(value: object) -> float:
    if type(value) is int:
        return float(value)
    raise _Bad(f"expected float, got {_shown(value)}")


def _anything(value: object) -> object:
    return value


_NONE: Final = _exactly(type(None))
_SCALARS: Final[dict[Any, _Kind]] = {
    **{kind: _exactly(kind) for kind in (bool, int, str, bytes, list, dict)},
    type(None): _NONE,
    None: _NONE,
    float: _Kind("float", _float, fast=float),
    Any: _Kind("anything", _anything),
    object: _Kind("anything", _anything),
}


def _kind(hint: Any, where: str) -> _Kind:
    """How to encode and decode values of this type."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (list, tuple, set, frozenset) and (origin is not tuple or args[1:] == (...,)):
        return _sequence(origin, _kind(_inner(args[0], where), where))
    if origin is dict or origin is Mapping:
        return _mapping(_kind(_inner(args[1], where), where))
    if origin is Literal:
        return _choice(args)
    if origin in (Union, types.UnionType):
        return _union([_kind(_inner(arg, where), where) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Record):
        hint = origin
    if isinstance(hint, type):
        return _class(hint, where)
    raise TypeError(f"{where}: a value of type {hint!r} cannot be sent")


def _inner(hint: Any, where: str) -> Any:
    if isinstance(hint, str) or hasattr(hint, "__forward_arg__"):
        raise TypeError(f"{where}: write the whole annotation in quotes, not a part of it")
    return hint


def _class(cls: type, where: str) -> _Kind:
    if cls is Message:
        return _tagged(None)
    if issubclass(cls, Record):
        return _Kind(cls.__name__, lambda raw: _decode(cls, raw), encode, records=(cls,))
    if issubclass(cls, Enum):
        return _enum(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(cls, where)
    if issubclass(cls, str):
        return _text(cls)
    if cls.__module__.startswith("pool.classad"):  # `codec` packs and unpacks these
        return _exactly(cls)
    raise TypeError(f"{where}: a {cls.__name__} cannot be sent")


def _text(cls: type[str]) -> _Kind:
    def read(value: object) -> str:
        if type(value) is str:
            return cls(value)
        raise _Bad(f"expected str, got {_shown(value)}")

    return _Kind(cls.__name__, read)


def _enum(cls: type[Enum]) -> _Kind:
    values = {member.value: member for member in cls}

    def read(value: object) -> Enum:
        try:
            return values[value]
        except (KeyError, TypeError):
            raise _Bad(f"expected one of {', '.join(map(str, values))}, got {_shown(value)}") from None

    return _Kind(cls.__name__, read, lambda member: member.value, takes=cls)


def _choice(values: tuple[object, ...]) -> _Kind:
    def read(value: object) -> object:
        if value in values:
            return value
        raise _Bad(f"expected one of {', '.join(map(str, values))}, got {_shown(value)}")

    return _Kind(" | ".join(map(repr, values)), read)


def _each(values: Iterable[object], item: _Kind) -> list[Any]:
    done = []
    fast, decode_one = item.fast, item.decode
    for position, value in enumerate(values):
        try:
            done.append(value if type(value) is fast else decode_one(value))
        except _Bad as bad:
            raise bad.within(f"[{position}]") from None
    return done


def _sequence(make: type, item: _Kind) -> _Kind:
    def read(value: object) -> Any:
        if type(value) is not list:
            raise _Bad(f"expected a list, got {_shown(value)}")
        done = _each(value, item)
        return done if make is list else make(done)

    encode_one = item.encode
    write: Callable[[Any], Any] | None = None
    if encode_one is not None:
        write = lambda values: [encode_one(value) for value in values]  # noqa: E731
    elif make in (set, frozenset):
        write = list
    return _Kind(f"{make.__name__} of {item.says}", read, write, takes=make)


def _mapping(item: _Kind) -> _Kind:
    def read(value: object) -> Any:
        if type(value) is not dict:
            raise _Bad(f"expected a map, got {_shown(value)}")
        done = {}
        for key, inner in value.items():
            if type(key) is not str:
                raise _Bad(f"expected text as key, got {_shown(key)}")
            try:
                done[key] = inner if type(inner) is item.fast else item.decode(inner)
            except _Bad as bad:
                raise bad.within(f"[{key[:40]!r}]") from None
        return done

    encode_one = item.encode
    if encode_one is None:
        return _Kind(f"map of {item.says}", read, dict, takes=(dict, Mapping))
    return _Kind(
        f"map of {item.says}",
        read,
        lambda values: {key: encode_one(inner) for key, inner in values.items()},
        takes=(dict, Mapping),
    )


def _named_tuple(cls: Any, where: str) -> _Kind:
    hints = [_resolve(getattr(hint, "__forward_arg__", hint), cls, where) for hint in cls.__annotations__.values()]
    kinds = [_kind(hint, where) for hint in hints]

    def read(value: object) -> Any:
        if type(value) is not list or len(value) != len(kinds):
            raise _Bad(f"expected {cls.__name__} as a list of {len(kinds)}, got {_shown(value)}")
        return cls(*(v if type(v) is kind.fast else kind.decode(v) for v, kind in zip(value, kinds, strict=True)))

    def write(value: Any) -> list[Any]:
        return [v if kind.encode is None else kind.encode(v) for v, kind in zip(value, kinds, strict=True)]

    return _Kind(cls.__name__, read, write if any(kind.encode for kind in kinds) else None, takes=cls)


def _union(kinds: list[_Kind]) -> _Kind:
    """Members are tried in order; two or more records are told apart by their tags."""
    records = tuple(cls for kind in kinds for cls in kind.records)
    if len(records) > 1:
        kinds = [kind for kind in kinds if not kind.records] + [_tagged(records)]
    says = " | ".join(kind.says for kind in kinds)
    some = [kind for kind in kinds if kind is not _NONE]
    if len(some) == 1 and len(kinds) == 2:
        return _optional(some[0], says)

    def read(value: object) -> Any:
        deepest: _Bad | None = None
        for kind in kinds:
            if type(value) is kind.fast:
                return value
        for kind in kinds:
            try:
                return kind.decode(value)
            except _Bad as bad:
                deepest = bad if bad.path else deepest
        raise deepest or _Bad(f"expected {says}, got {_shown(value)}")

    if all(kind.encode is None for kind in kinds):
        return _Kind(says, read)

    def write(value: Any) -> Any:
        for kind in kinds:
            if kind.encode is not None and isinstance(value, kind.takes):
                return kind.encode(value)
        return value

    return _Kind(says, read, write)


def _optional(kind: _Kind, says: str) -> _Kind:
    """`T | None`: what is wrong is said as for T alone."""
    encode_some = kind.encode

    def read(value: object) -> Any:
        return value if value is None or type(value) is kind.fast else kind.decode(value)

    if encode_some is None:
        return _Kind(says, read)
    return _Kind(says, read, lambda value: None if value is None else encode_some(value), takes=kind.takes)


def _tagged(allowed: tuple[type[Record], ...] | None) -> _Kind:
    """A message with its tag: any at all, or one of several."""
    tags: dict[str, type[Message]] = {}
    for cls in allowed or ():
        if not issubclass(cls, Message) or not cls.tag:
            raise TypeError(f"{cls.__qualname__} needs a tag to be one of several records")
        tags[cls.tag] = cls
    says = " | ".join(cls.__name__ for cls in tags.values()) or "a message"

    def read(value: object) -> Message:
        if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
            raise _Bad(f"expected {says}, got {_shown(value)}")
        cls = (MESSAGES if allowed is None else tags).get(value[0])
        if cls is None:
            raise _Bad(f"expected {says}, got a message tagged {_shown(value[0])}")
        return _decode(cls, value[1])

    return _Kind(says, read, lambda message: [message.tag, encode(message)], records=allowed or (Message,))


DONE: Final = Done()
"""What a handler of a `Request[Done]` returns."""
