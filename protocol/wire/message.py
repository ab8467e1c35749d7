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

from pool.errors import PeerError, PoolError
from pool.hints import TYPE_CHECKING, Any, Callable, ClassVar, Final, Generic, Mapping, TypeVar, dataclass_transform
from protocol.wrong import WrongValue, shown

if TYPE_CHECKING:
    from protocol.kinds import Kind

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

    def __init__(self, kinds: dict[str, Kind], defaults: Mapping[str, Any]) -> None:
        self.kinds = kinds
        self.encoders = [(name, kind.encode) for name, kind in kinds.items() if kind.encode is not None]
        self.decoders = [(name, kind.fast, kind.decode, defaults[name]) for name, kind in kinds.items()]


def _fresh(default: Any) -> Any:
    """A field's default, new where it could be changed."""
    if isinstance(default, _Factory):
        return default.make()
    return default.copy() if isinstance(default, list | dict | set) else default


def decode_inside(cls: type[_R], raw: object) -> _R:
    """As `decode`, for a record within another: the WrongValue still grows its path."""
    if type(raw) is not dict:
        raise WrongValue(f"expected a map, got {shown(raw)}")
    plan = _plan_of(cls)
    values: dict[str, Any] = {}
    for name, fast, decode_value, default in plan.decoders:
        value = raw.get(name, _MISSING)
        if type(value) is fast:
            values[name] = value
        elif value is _MISSING:
            if default is _MISSING:
                raise WrongValue("is missing").within(name)
            values[name] = _fresh(default)
        else:
            try:
                values[name] = decode_value(value)
            except WrongValue as bad:
                raise bad.within(name) from None
    record = object.__new__(cls)
    object.__setattr__(record, "__dict__", values)
    check = _shape_of(cls).check
    if check is not None:
        try:
            check(record)
        except PoolError as error:
            raise WrongValue(str(error)) from None
    return record


def _rebuild(cls: type[Record], values: dict[str, Any]) -> Record:
    return cls(**values)


def _name(cls: type[Record]) -> str:
    return getattr(cls, "tag", "") or cls.__name__


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
        from protocol.kinds import kind_of, resolve  # only what travels pays for it

        shape = _shape_of(cls)
        kinds = {}
        for name, (hint, owner) in shape.hints.items():
            where = f"{owner.__qualname__}.{name}"
            kinds[name] = kind_of(resolve(hint, owner, where), where)
        plan = cls._plan = _Plan(kinds, shape.defaults)
    return plan


def _own_annotations(cls: type) -> dict[str, Any]:
    """The class's own annotations, as they were written (the inspect module would cost tools 10 ms)."""
    own: dict[str, Any] = vars(cls).get("__annotations__", {})
    return own


_answers: dict[type[Message], Kind] = {}


def _answer_of(request: type[Message]) -> Kind:
    kind = _answers.get(request)
    if kind is None:
        from protocol.kinds import kind_of

        kind = _answers[request] = kind_of(*_answer_hint(request))
    return kind


def _answer_hint(request: type[Message]) -> tuple[Any, str]:
    from protocol.kinds import resolve

    where = f"the answer of {request.__qualname__}"
    for cls in request.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if getattr(base, "__origin__", None) in (Request, StreamRequest):
                hint = base.__args__[0]
                if not isinstance(hint, TypeVar):
                    return resolve(hint, cls, where), where
    raise TypeError(f"{request.__qualname__} is not a Request[...] or StreamRequest[...]")


DONE: Final = Done()
"""What a handler of a `Request[Done]` returns."""
