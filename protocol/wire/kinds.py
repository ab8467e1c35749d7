"""How values of each type are encoded, decoded and checked: a hint becomes a `Kind`.

Made when a record class first travels; `message` says which types there are.
"""

from __future__ import annotations

import sys

from pool.hints import Any, Callable, Final, Iterable, Mapping
from protocol.message import MESSAGES, Message, Record, decode_inside, encode
from protocol.wrong import WrongValue, shown

FLOAT_MAX: Final = 2.0**53
"""The numbers within this can be told from their neighbours, and stand in a database."""


class Kind:
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


def _exactly(kind: type) -> Kind:
    def refuse(value: object) -> Any:
        raise WrongValue(f"expected {kind.__name__}, got {shown(value)}")

    return Kind(kind.__name__, refuse, fast=kind)


def _float(value: object) -> float:
    """Times and lengths of time: what is no number, or without end, would stop whoever waits or counts with it."""
    if type(value) is float or type(value) is int:
        if -FLOAT_MAX <= value <= FLOAT_MAX:  # nothing is true of NaN
            return float(value)
        raise WrongValue(f"expected float within {FLOAT_MAX:g}, got {shown(value)}")
    raise WrongValue(f"expected float, got {shown(value)}")


def _anything(value: object) -> object:
    return value


_UNION: Final = type(int | str)
_NONE: Final = _exactly(type(None))
_SCALARS: Final[dict[Any, Kind]] = {
    **{kind: _exactly(kind) for kind in (bool, int, str, bytes, list, dict)},
    type(None): _NONE,
    None: _NONE,
    float: Kind("float", _float),
    object: Kind("anything", _anything),
}


def kind_of(hint: Any, where: str) -> Kind:
    """How to encode and decode values of this type."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin: Any = getattr(hint, "__origin__", type(hint))
    args: tuple[Any, ...] = getattr(hint, "__args__", ())
    if origin in (list, tuple, set, frozenset) and (origin is not tuple or args[1:] == (...,)):
        return _sequence(origin, kind_of(_inner(args[0], where), where))
    if origin is dict or origin is Mapping:
        return _mapping(kind_of(_inner(args[1], where), where))
    if _is_typings(hint, "Any"):
        return _SCALARS[object]
    if _is_typings(origin, "Literal"):
        return _choice(args)
    if origin is _UNION or _is_typings(origin, "Union"):
        return _union([kind_of(_inner(arg, where), where) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Record):
        hint = origin
    if isinstance(hint, type):
        return _class(hint, where)
    raise TypeError(f"{where}: a value of type {hint!r} cannot be sent")


def _is_typings(hint: object, name: str) -> bool:
    """Whether it is this name of `typing`, or that of `pool.hints` which stands for it."""
    return str(hint).removeprefix("typing.") == name


def _inner(hint: Any, where: str) -> Any:
    if isinstance(hint, str) or hasattr(hint, "__forward_arg__"):
        raise TypeError(f"{where}: write the whole annotation in quotes, not a part of it")
    return hint


def _class(cls: type, where: str) -> Kind:
    if cls is Message:
        return _tagged(None)
    if issubclass(cls, Record):
        return Kind(cls.__name__, lambda raw: decode_inside(cls, raw), encode, records=(cls,))
    if hasattr(cls, "__members__"):  # an Enum, or a StrEnum of pool.hints
        return _enum(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(cls, where)
    if issubclass(cls, str):
        return _text(cls)
    if cls.__module__.startswith("pool.classad"):  # `codec` packs and unpacks these
        return _exactly(cls)
    raise TypeError(f"{where}: a {cls.__name__} cannot be sent")


def _text(cls: type[str]) -> Kind:
    def read(value: object) -> str:
        if type(value) is str:
            return cls(value)
        raise WrongValue(f"expected str, got {shown(value)}")

    return Kind(cls.__name__, read)


def _enum(cls: Any) -> Kind:
    values = {member.value: member for member in cls}

    def read(value: object) -> Any:
        try:
            return values[value]
        except (KeyError, TypeError):
            raise WrongValue(f"expected one of {', '.join(map(str, values))}, got {shown(value)}") from None

    return Kind(cls.__name__, read, lambda member: member.value, takes=cls)


def _choice(values: tuple[object, ...]) -> Kind:
    def read(value: object) -> object:
        if value in values:
            return value
        raise WrongValue(f"expected one of {', '.join(map(str, values))}, got {shown(value)}")

    return Kind(" | ".join(map(repr, values)), read)


def _each(values: Iterable[object], item: Kind) -> list[Any]:
    done = []
    fast, decode_one = item.fast, item.decode
    for position, value in enumerate(values):
        try:
            done.append(value if type(value) is fast else decode_one(value))
        except WrongValue as bad:
            raise bad.within(f"[{position}]") from None
    return done


def _sequence(make: type, item: Kind) -> Kind:
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
    return Kind(f"{make.__name__} of {item.says}", read, write, takes=make)


def _mapping(item: Kind) -> Kind:
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
        return Kind(f"map of {item.says}", read, dict, takes=(dict, Mapping))
    return Kind(
        f"map of {item.says}",
        read,
        lambda values: {key: encode_one(inner) for key, inner in values.items()},
        takes=(dict, Mapping),
    )


def _named_tuple(cls: Any, where: str) -> Kind:
    hints = [resolve(getattr(hint, "__forward_arg__", hint), cls, where) for hint in cls.__annotations__.values()]
    kinds = [kind_of(hint, where) for hint in hints]

    def read(value: object) -> Any:
        if type(value) is not list or len(value) != len(kinds):
            raise WrongValue(f"expected {cls.__name__} as a list of {len(kinds)}, got {shown(value)}")
        return cls(*(v if type(v) is kind.fast else kind.decode(v) for v, kind in zip(value, kinds, strict=True)))

    def write(value: Any) -> list[Any]:
        return [v if kind.encode is None else kind.encode(v) for v, kind in zip(value, kinds, strict=True)]

    return Kind(cls.__name__, read, write if any(kind.encode for kind in kinds) else None, takes=cls)


def _union(kinds: list[Kind]) -> Kind:
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
        return Kind(says, read)

    def write(value: Any) -> Any:
        for kind in kinds:
            if kind.encode is not None and isinstance(value, kind.takes):
                return kind.encode(value)
        return value

    return Kind(says, read, write)


def _optional(kind: Kind, says: str) -> Kind:
    """`T | None`: what is wrong is said as for T alone."""
    encode_some = kind.encode

    def read(value: object) -> Any:
        return value if value is None or type(value) is kind.fast else kind.decode(value)

    if encode_some is None:
        return Kind(says, read)
    return Kind(says, read, lambda value: None if value is None else encode_some(value), takes=kind.takes)


def _tagged(allowed: tuple[type[Record], ...] | None) -> Kind:
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

    return Kind(says, read, lambda message: [message.tag, encode(message)], records=allowed or (Message,))
