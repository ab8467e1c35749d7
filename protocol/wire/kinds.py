"""How records travel: a hint becomes a `TypeCodec`, the hints of a record class a `RecordPlan`.

A plan makes a map of a record, and a record of a map. It is made when a record class first travels; `message` says
which types there are. Maps, lists and scalars are msgpack's (https://github.com/msgpack/msgpack/blob/master/spec.md),
ClassAd values extension types of `codec`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union

from pool.base.errors import PeerError, PoolError
from protocol.wire.message import MESSAGES, MISSING, Message, Record, Request, Shape, StreamRequest, fresh, shape_of
from protocol.wire.wrong import WrongValue, shown

_R = TypeVar("_R", bound=Record)

FLOAT_MAX: Final = 2.0**53
"""The numbers within this can be told from their neighbours, and stand in a database."""


class TypeCodec:
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


def resolve(hint: Any, owner: type, where: str) -> Any:
    """The type that an annotation means, in the namespace of the module that wrote it."""
    if not isinstance(hint, str):
        return hint
    space = vars(sys.modules[owner.__module__])
    try:
        return eval(hint, space, {owner.__name__: owner})
    except NameError as error:
        raise TypeError(f"{where}: {error}") from None


def _exactly(kind: type) -> TypeCodec:
    def refuse(value: object) -> Any:
        raise WrongValue(f"expected {kind.__name__}, got {shown(value)}")

    return TypeCodec(kind.__name__, refuse, fast=kind)


def _float(value: object) -> float:
    """Times and lengths of time: what is no number, or without end, would stop whoever waits or counts with it."""
    if type(value) is float or type(value) is int:
        if -FLOAT_MAX <= value <= FLOAT_MAX:  # nothing is true of NaN
            return float(value)
        raise WrongValue(f"expected float within {FLOAT_MAX:g}, got {shown(value)}")
    raise WrongValue(f"expected float, got {shown(value)}")


def _anything(value: object) -> object:
    return value


_NONE: Final = _exactly(type(None))
_SCALARS: Final[dict[Any, TypeCodec]] = {
    **{kind: _exactly(kind) for kind in (bool, int, str, bytes, list, dict)},
    type(None): _NONE,
    None: _NONE,
    float: TypeCodec("float", _float),
    object: TypeCodec("anything", _anything),
}


def kind_of(hint: Any, where: str) -> TypeCodec:
    """How to encode and decode values of this type."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin: Any = getattr(hint, "__origin__", type(hint))
    args: tuple[Any, ...] = getattr(hint, "__args__", ())
    if origin in (list, tuple, set, frozenset) and (origin is not tuple or args[1:] == (...,)):
        return _sequence(origin, kind_of(_inner(args[0], where), where))
    if origin is dict or origin is Mapping:
        return _mapping(kind_of(_inner(args[1], where), where))
    if hint is Any:
        return _SCALARS[object]
    if origin is Literal:
        return _choice(args)
    if origin is UnionType or origin is Union:
        return _union([kind_of(_inner(arg, where), where) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Record):
        hint = origin
    if isinstance(hint, type):
        return _class(hint, where)
    raise TypeError(f"{where}: a value of type {hint!r} cannot be sent")


def _inner(hint: Any, where: str) -> Any:
    if isinstance(hint, str) or hasattr(hint, "__forward_arg__"):
        raise TypeError(f"{where}: write the whole annotation in quotes, not a part of it")
    return hint


def _class(cls: type, where: str) -> TypeCodec:
    if cls is Message:
        return _tagged(None)
    if issubclass(cls, Record):
        return TypeCodec(cls.__name__, lambda raw: decode_inside(cls, raw), encode, records=(cls,))
    if issubclass(cls, Enum):
        return _enum(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(cls, where)
    if issubclass(cls, str):
        return _text(cls)
    if cls.__module__.startswith("pool.classad"):  # `codec` packs and unpacks these
        return _exactly(cls)
    raise TypeError(f"{where}: a {cls.__name__} cannot be sent")


def _text(cls: type[str]) -> TypeCodec:
    def read(value: object) -> str:
        if type(value) is str:
            return cls(value)
        raise WrongValue(f"expected str, got {shown(value)}")

    return TypeCodec(cls.__name__, read)


def _enum(cls: Any) -> TypeCodec:
    values = {member.value: member for member in cls}

    def read(value: object) -> Any:
        try:
            return values[value]
        except (KeyError, TypeError):
            raise WrongValue(f"expected one of {', '.join(map(str, values))}, got {shown(value)}") from None

    return TypeCodec(cls.__name__, read, lambda member: member.value, takes=cls)


def _choice(values: tuple[object, ...]) -> TypeCodec:
    def read(value: object) -> object:
        if value in values:
            return value
        raise WrongValue(f"expected one of {', '.join(map(str, values))}, got {shown(value)}")

    return TypeCodec(" | ".join(map(repr, values)), read)


def _each(values: Iterable[object], item: TypeCodec) -> list[Any]:
    done = []
    fast, decode_one = item.fast, item.decode
    for position, value in enumerate(values):
        try:
            done.append(value if type(value) is fast else decode_one(value))
        except WrongValue as bad:
            raise bad.within(f"[{position}]") from None
    return done


def _sequence(make: type, item: TypeCodec) -> TypeCodec:
    def read(value: object) -> Any:
        if type(value) is not list:
            raise WrongValue(f"expected a list, got {shown(value)}")
        done = _each(value, item)
        return done if make is list else make(done)

    encode_one = item.encode
    write: Callable[[Any], Any] | None = None
    if encode_one is not None:
        write = lambda values: [encode_one(value) for value in values]  # noqa: E731
    elif make in (set, frozenset):
        write = list
    return TypeCodec(f"{make.__name__} of {item.says}", read, write, takes=make)


def _mapping(item: TypeCodec) -> TypeCodec:
    def read(value: object) -> Any:
        if type(value) is not dict:
            raise WrongValue(f"expected a map, got {shown(value)}")
        done = {}
        for key, inner in value.items():
            if type(key) is not str:
                raise WrongValue(f"expected text as key, got {shown(key)}")
            try:
                done[key] = inner if type(inner) is item.fast else item.decode(inner)
            except WrongValue as bad:
                raise bad.within(f"[{key[:40]!r}]") from None
        return done

    encode_one = item.encode
    if encode_one is None:
        return TypeCodec(f"map of {item.says}", read, dict, takes=(dict, Mapping))
    return TypeCodec(
        f"map of {item.says}",
        read,
        lambda values: {key: encode_one(inner) for key, inner in values.items()},
        takes=(dict, Mapping),
    )


def _named_tuple(cls: Any, where: str) -> TypeCodec:
    hints = [resolve(getattr(hint, "__forward_arg__", hint), cls, where) for hint in cls.__annotations__.values()]
    kinds = [kind_of(hint, where) for hint in hints]

    plain = [kind.fast for kind in kinds]

    def read(value: object) -> Any:
        if type(value) is not list or len(value) != len(kinds):
            raise WrongValue(f"expected {cls.__name__} as a list of {len(kinds)}, got {shown(value)}")
        if list(map(type, value)) == plain:
            return cls(*value)
        return cls(*(v if type(v) is kind.fast else kind.decode(v) for v, kind in zip(value, kinds, strict=True)))

    def write(value: Any) -> list[Any]:
        return [v if kind.encode is None else kind.encode(v) for v, kind in zip(value, kinds, strict=True)]

    return TypeCodec(cls.__name__, read, write if any(kind.encode for kind in kinds) else None, takes=cls)


def _union(kinds: list[TypeCodec]) -> TypeCodec:
    """Members are tried in order; two or more records are told apart by their tags."""
    records = tuple(cls for kind in kinds for cls in kind.records)
    if len(records) > 1:
        kinds = [kind for kind in kinds if not kind.records] + [_tagged(records)]
    says = " | ".join(kind.says for kind in kinds)
    some = [kind for kind in kinds if kind is not _NONE]
    if len(some) == 1 and len(kinds) == 2:
        return _optional(some[0], says)

    def read(value: object) -> Any:
        deepest: WrongValue | None = None
        for kind in kinds:
            if type(value) is kind.fast:
                return value
        for kind in kinds:
            try:
                return kind.decode(value)
            except WrongValue as bad:
                deepest = bad if bad.path else deepest
        raise deepest or WrongValue(f"expected {says}, got {shown(value)}")

    if all(kind.encode is None for kind in kinds):
        return TypeCodec(says, read)

    def write(value: Any) -> Any:
        for kind in kinds:
            if kind.encode is not None and isinstance(value, kind.takes):
                return kind.encode(value)
        return value

    return TypeCodec(says, read, write)


def _optional(kind: TypeCodec, says: str) -> TypeCodec:
    """`T | None`: what is wrong is said as for T alone."""
    encode_some = kind.encode

    def read(value: object) -> Any:
        return value if value is None or type(value) is kind.fast else kind.decode(value)

    if encode_some is None:
        return TypeCodec(says, read)
    return TypeCodec(says, read, lambda value: None if value is None else encode_some(value), takes=kind.takes)


def _tagged(allowed: tuple[type[Record], ...] | None) -> TypeCodec:
    """A message with its tag: any at all, or one of several."""
    tags: dict[str, type[Message]] = {}
    for cls in allowed or ():
        if not issubclass(cls, Message) or not cls.tag:
            raise TypeError(f"{cls.__qualname__} needs a tag to be one of several records")
        tags[cls.tag] = cls
    says = " | ".join(cls.__name__ for cls in tags.values()) or "a message"

    def read(value: object) -> Message:
        if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
            raise WrongValue(f"expected {says}, got {shown(value)}")
        cls = (MESSAGES if allowed is None else tags).get(value[0])
        if cls is None:
            raise WrongValue(f"expected {says}, got a message tagged {shown(value[0])}")
        return decode_inside(cls, value[1])

    return TypeCodec(says, read, lambda message: [message.tag, encode(message)], records=allowed or (Message,))


# Records as maps, and back.


def fields_of(cls: type[Record]) -> Mapping[str, str]:
    """Each field's name and, in words, what it holds; for documentation."""
    return {name: kind.says for name, kind in _plan_of(cls).kinds.items()}


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
        return decode_inside(cls, raw)
    except WrongValue as bad:
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
    except WrongValue as bad:
        raise PeerError(f"answer to {_name(request)}: {bad}") from None
    except RecursionError:
        raise PeerError(f"answer to {_name(request)}: nested too deeply") from None


def decode_inside(cls: type[_R], raw: object) -> _R:
    """As `decode`, for a record within another: the WrongValue still grows its path."""
    if type(raw) is not dict:
        raise WrongValue(f"expected a map, got {shown(raw)}")
    plan = _plan_of(cls)
    values: dict[str, Any] = {}
    get = raw.get
    for name, fast, decode_value, default in plan.decoders:
        value = get(name, MISSING)
        if type(value) is fast:
            values[name] = value
        elif value is MISSING:
            if default is MISSING:
                raise WrongValue("is missing").within(name)
            values[name] = fresh(default)
        else:
            try:
                values[name] = decode_value(value)
            except WrongValue as bad:
                raise bad.within(name) from None
    # Past the constructor, which would look at each field again.
    record = object.__new__(cls)
    object.__setattr__(record, "__dict__", values)
    if plan.check is not None:
        try:
            plan.check(record)
        except PoolError as error:
            raise WrongValue(str(error)) from None
    return record


class RecordPlan:
    """How a record class is encoded and decoded, once its hints are resolved."""

    __slots__ = ("check", "decoders", "encoders", "kinds")

    def __init__(self, kinds: dict[str, TypeCodec], shape: Shape) -> None:
        self.kinds, self.check, defaults = kinds, shape.check, shape.defaults
        self.encoders = [(name, kind.encode) for name, kind in kinds.items() if kind.encode is not None]
        self.decoders = [(name, kind.fast, kind.decode, defaults[name]) for name, kind in kinds.items()]


def _name(cls: type[Record]) -> str:
    return getattr(cls, "tag", "") or cls.__name__


def _plan_of(cls: type[Record]) -> RecordPlan:
    plan = cls._plan
    if plan is None:
        shape = shape_of(cls)
        kinds = {}
        for name, (hint, owner) in shape.hints.items():
            where = f"{owner.__qualname__}.{name}"
            kinds[name] = kind_of(resolve(hint, owner, where), where)
        plan = cls._plan = RecordPlan(kinds, shape)
    return plan


_answers: dict[type[Message], TypeCodec] = {}


def _answer_of(request: type[Message]) -> TypeCodec:
    kind = _answers.get(request)
    if kind is None:
        kind = _answers[request] = kind_of(*_answer_hint(request))
    return kind


def _answer_hint(request: type[Message]) -> tuple[Any, str]:
    where = f"the answer of {request.__qualname__}"
    for cls in request.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if getattr(base, "__origin__", None) in (Request, StreamRequest):
                hint = base.__args__[0]
                if not isinstance(hint, TypeVar):
                    return resolve(hint, cls, where), where
    raise TypeError(f"{request.__qualname__} is not a Request[...] or StreamRequest[...]")
