"""msgpack (https://github.com/msgpack/msgpack/blob/master/spec.md) to and from values, ClassAd values included.

An ad is a map from attribute to value. A literal travels as msgpack's own value, and what msgpack lacks as an extension
type: undefined, error, times, nested ads, and expressions as their text, which the receiver parses (and interns) only
when it has not met it before. A chained ad travels flat.

`split_private` divides an ad into the half for everybody and the half with capabilities, which only permitted receivers
are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import msgpack

from pool.base.errors import PeerError, PoolError

if TYPE_CHECKING:
    from pool.classad import ClassAd

AD, EXPRESSION, UNDEFINED_CODE, ERROR_CODE, ABS_TIME, REL_TIME, BIG_INT = 1, 2, 3, 4, 5, 6, 7

PRIVATE_ATTRIBUTES: Final = frozenset(
    {"capability", "childclaimids", "claimid", "claimidlist", "claimids", "pairedclaimid", "transferkey"}
)
PRIVATE_PREFIX: Final = "_condor_priv"

_NESTING_MAX: Final = 64
_PACK_BYTES: Final = 4096
_INT_END: Final = 2**63
NO_BOUND: Final = 1 << 60
NEW_TEXT_MAX: Final = 256 * 1024
"""Characters of expressions that one request may bring which were not known before: to read them takes a moment."""
UNCOUNTED_BYTES: Final = 64 * 1024
"""Up to this size it does not matter how many values there are."""
FEW_VALUES: Final = 64
"""So many are found out one by one: most large messages are a piece of a file, through which to look takes long."""


class _Ads:
    """The ClassAd types and how each is packed; imported when the first ad is met, since few messages hold any."""

    def __init__(self) -> None:
        from pool.classad import ERROR, UNDEFINED, AbsTime, ClassAd, Error, Expr, RelTime, Undefined, expr
        from pool.classad.eval.expression import READER, storable

        self.ClassAd, self.expr, self.reader, self.storable = ClassAd, expr, READER, storable
        self.read_most = NO_BOUND
        """How many characters may have been parsed when the message that is being unpacked has been."""
        self.AbsTime, self.RelTime, self.UNDEFINED, self.ERROR = AbsTime, RelTime, UNDEFINED, ERROR
        self.pack: dict[type, Callable[[Any], msgpack.ExtType]] = {
            ClassAd: lambda ad: msgpack.ExtType(AD, pack(_row(ad))),
            Expr: lambda e: msgpack.ExtType(EXPRESSION, e.text.encode("utf-8", "surrogateescape")),
            Undefined: lambda _: msgpack.ExtType(UNDEFINED_CODE, b""),
            Error: lambda _: msgpack.ExtType(ERROR_CODE, b""),
            AbsTime: lambda t: msgpack.ExtType(ABS_TIME, pack([t.secs, t.offset])),
            RelTime: lambda t: msgpack.ExtType(REL_TIME, pack(t.secs)),
        }


_known_ads: _Ads | None = None


def _ads() -> _Ads:
    global _known_ads
    if _known_ads is None:
        _known_ads = _Ads()
    return _known_ads


def extend(value: object) -> object:
    """What msgpack does not know by itself."""
    packer = _ads().pack.get(type(value))
    if packer is not None:
        return packer(value)
    if isinstance(value, int):
        return msgpack.ExtType(BIG_INT, str(value).encode())
    if isinstance(value, frozenset | set):
        return list(value)
    # Subclasses of the ClassAd types, which tests and callers may make.
    for base in type(value).__mro__[1:]:
        if base in _ads().pack:
            return _ads().pack[base](value)
    raise TypeError(f"a {type(value).__name__} cannot be packed")


def pack(value: object) -> bytes:
    """The value as msgpack."""
    # A packer for each value, for a connection that is quiet needs none; its buffer grows for what is large, and its
    # default of 256 KiB takes longer to get than most messages to pack.
    packer = msgpack.Packer(default=extend, unicode_errors="surrogateescape", buf_size=_PACK_BYTES)
    packed: bytes = packer.pack(value)
    return packed


def pack_in_two(message: tuple[object, ...]) -> tuple[bytes, bytes]:
    """The same in two parts. The second is of a large message that ends with bytes, in a map, these: not copied."""
    body = message[-1] if message else None
    if type(body) is dict and body:
        name = next(reversed(body))
        tail = body[name]
        if type(tail) is bytes and len(tail) > UNCOUNTED_BYTES:
            head = pack((*message[:-1], {**body, name: b""}))
            return head[: -len(_NO_BYTES)] + b"\xc6" + len(tail).to_bytes(4, "big"), tail
    return pack(message), b""


_NO_BYTES: Final = b"\xc4\0"
"""As msgpack has them."""


def unpack(data: bytes | memoryview, *, new_text_max: int = NO_BOUND) -> Any:
    """The value that `pack` packed; PeerError when the bytes are anything else, or bring more characters of
    expressions that were not known here.
    """
    if len(data) > new_text_max:
        ads = _ads()
        ads.read_most = ads.reader.characters + new_text_max
    elif _known_ads is not None:
        _known_ads.read_most = NO_BOUND
    try:
        return _unpack(data)
    except PoolError as error:
        raise PeerError(f"not a ClassAd value: {error}") from None
    except RecursionError:
        raise PeerError("not msgpack: nested too deeply") from None
    except (ValueError, TypeError, AttributeError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise PeerError(f"not msgpack: {_short(error)}") from None


def unpack_plain(data: bytes | memoryview) -> Any:
    """The same without extension types: what a stranger may send."""
    try:
        return msgpack.unpackb(data, ext_hook=_refuse, strict_map_key=True)
    except RecursionError:
        raise PeerError("not msgpack: nested too deeply") from None
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise PeerError(f"not msgpack: {_short(error)}") from None


def pack_ads(ads: Iterable[ClassAd]) -> bytes:
    """Many ads as one value: smaller and quicker than ads one by one inside a message."""
    return pack([_row(ad) for ad in ads])


def make_ads(rows: Iterable[object]) -> list[ClassAd]:
    """Ads of maps from names to values; PeerError when a value is none that an ad can have."""
    try:
        return [_make_ad(row) for row in rows]
    except PoolError as error:
        raise PeerError(f"not a ClassAd value: {error}") from None


def storable(values: list[Any]) -> list[Any]:
    """The values as ads store them; PeerError where one is none, or is none that an ad can have."""
    try:
        found = [value if value == [] else _ads().storable(value) for value in values]
    except (PoolError, TypeError) as error:
        raise PeerError(f"not a ClassAd value: {error}") from None
    if None in values:
        raise PeerError("not a ClassAd value", expected="one in each row")
    return found


def is_private(attribute: str) -> bool:
    """Whether an attribute is a capability, which only permitted receivers may see."""
    folded = attribute.casefold()
    return folded in PRIVATE_ATTRIBUTES or folded.startswith(PRIVATE_PREFIX)


def split_private(ad: ClassAd) -> tuple[ClassAd, ClassAd | None]:
    """The ad without its capabilities, and an ad of them alone (None when it has none)."""
    secret = [name for name in ad if is_private(name)]
    if not secret:
        return ad, None
    public, private = ad.flat(), _ads().ClassAd()
    for name in secret:
        private[name] = ad[name]
        del public[name]
    return public, private


def _unpack(data: bytes | memoryview) -> Any:
    if len(data) > UNCOUNTED_BYTES:
        _check_density(data)
    return msgpack.unpackb(data, ext_hook=_shrink, unicode_errors="surrogateescape", strict_map_key=True)


def _check_density(data: bytes | memoryview) -> None:
    """ValueError where the values would take many times the memory of their bytes; none of them is made for that.

    Every value but a small whole number begins with a byte above 0x7F, so that counting those is enough for nearly all
    messages; only text that is not ASCII, and raw bytes, have to be looked through value by value.
    """
    if _has_at_most(FEW_VALUES, data):
        return
    most = UNCOUNTED_BYTES + min(len(data), 1024 * 1024) // 4 + len(data) // 32
    if len(bytes(data).translate(None, _ASCII)) > most and not _has_at_most(most, data):
        raise ValueError(f"more than {most} values in {len(data)} bytes")


def _has_at_most(most: int, data: bytes | memoryview) -> bool:
    """Whether there are no more values than that, small whole numbers aside; of those there may be as many again."""
    at, end, skipped, values = 0, len(data), _SKIPPED, 0
    for _ in range(2 * most):
        if at >= end:
            return True
        first = data[at]
        values += first >= 0x80
        if values > most:
            return False
        own, width = skipped[first]
        at += own + (int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else 0)
    return at >= end


def _skips() -> list[tuple[int, int]]:
    """For each first byte of a value: how many bytes are its own, and how many of them, next to it, are a length.

    The elements of arrays and maps are values by themselves; the bytes of an extension are none.
    """
    found = [(1, 0)] * 256
    for size in range(32):
        found[0xA0 + size] = (1 + size, 0)
    for first, width in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4)):
        found[first] = (1 + width, width)
    for first, size in ((0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)):
        found[first] = (1 + size, 0)
    for first, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8), (0xDC, 2), (0xDD, 4), (0xDE, 2), (0xDF, 4)):
        found[first] = (1 + size, 0)
    for first, width in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
        found[first] = (2 + width, width)  # the type of an extension stands behind its length
    for exponent in range(5):
        found[0xD4 + exponent] = (2 + 2**exponent, 0)
    return found


_SKIPPED: Final = _skips()
_ASCII: Final = bytes(range(128))
_depth = 0


def _shrink(code: int, data: bytes) -> object:
    """An extension type back to its value."""
    global _depth
    if code == AD:
        if _depth >= _NESTING_MAX:
            raise ValueError("ads nested too deeply")
        _depth += 1
        try:
            return _make_ad(_unpack(data))
        finally:
            _depth -= 1
    ads = _ads()
    if code == EXPRESSION:
        found = ads.expr(data.decode("utf-8", "surrogateescape"))
        if ads.reader.characters > ads.read_most:
            raise ValueError("too many expressions that were not known here")
        return found
    if code == UNDEFINED_CODE:
        return ads.UNDEFINED
    if code == ERROR_CODE:
        return ads.ERROR
    if code == ABS_TIME:
        return _times(ads.AbsTime, _unpack(data), (int, int))
    if code == REL_TIME:
        return _times(ads.RelTime, [_unpack(data)], (float,))
    if code == BIG_INT and len(data) < 64:
        return int(data)
    raise ValueError(f"extension type {code} is not known")


def _times(make: Callable[..., object], parts: object, kinds: tuple[type, ...]) -> object:
    if type(parts) is not list or len(parts) != len(kinds):
        raise ValueError("a malformed time")
    for part, kind in zip(parts, kinds, strict=True):
        if type(part) is not kind and not (kind is float and type(part) is int):
            raise ValueError("a malformed time")
    return make(*parts)


def _row(ad: ClassAd) -> dict[str, Any]:
    """An ad as a map."""
    return (ad if ad.parent is None else ad.flat()).attrs.spelled()


# Lower-case keys of names that are spelt as usual: most attributes of most ads, and then nothing else needs to be kept.
_keys: dict[str, str] = {}
_KEYS_MAX: Final = 20_000
_KEPT_NAME_MAX: Final = 128
_SETTLED: Final = frozenset({str, bool, float})  # values that an ad stores as they are


class _Shape:
    """The names of ads that came, all spelt as usual, and what kinds of values the last one had."""

    __slots__ = ("ints", "keys", "kinds", "odd")

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.learn(())

    def learn(self, kinds: tuple[type, ...]) -> None:
        """Where values of these kinds are whole numbers, and where they are not stored as they come."""
        self.kinds = kinds
        self.ints = [kind is int for kind in kinds]
        self.odd = [at for at, kind in enumerate(kinds) if kind is not int and kind not in _SETTLED]


_SHAPE_MIN: Final = 64
"""From so many names on an ad is read by its shape: whole ads come with the same names again, changes hardly ever."""
_shapes: Final[dict[tuple[str, ...], _Shape]] = {}
_SHAPES_MAX: Final = 1000
_SHAPE_NAMES_MAX: Final = 400


def _make_ad(row: object) -> ClassAd:
    if type(row) is not dict:
        raise ValueError("an ad that is not a map")
    if len(row) < _SHAPE_MIN:
        return _read_ad(row)
    names = tuple(row)
    shape = _shapes.get(names)
    if shape is None:
        ad = _read_ad(row)
        attrs = ad.attrs
        if len(row) <= _SHAPE_NAMES_MAX and len(attrs) == len(row) and all(name in _keys for name in names):
            if len(_shapes) >= _SHAPES_MAX:
                _shapes.clear()
            _shapes[names] = _Shape(tuple(attrs))
        return ad
    values = [*row.values()]
    kinds = tuple(map(type, values))
    if kinds != shape.kinds:
        shape.learn(kinds)
    if max(compress(values, shape.ints), default=0) >= _INT_END:
        return _read_ad(row)
    for at in shape.odd:
        if values[at] != []:
            values[at] = _ads().storable(values[at])
    ad = _ads().ClassAd()
    ad.attrs.update(zip(shape.keys, values, strict=True))
    return ad


def _read_ad(row: dict[Any, Any]) -> ClassAd:
    ad = _ads().ClassAd()
    attrs = ad.attrs
    for name, value in row.items():
        key = _keys.get(name)
        if key is not None and (type(value) in _SETTLED or (type(value) is int and -_INT_END <= value < _INT_END)):
            attrs[key] = value
            continue
        if type(name) is not str:
            raise ValueError("an attribute whose name is no text")
        ad[name] = value
        if key is None and len(name) <= _KEPT_NAME_MAX:
            if len(_keys) >= _KEYS_MAX:  # who sends new names for ever costs others a moment
                _keys.clear()
            key = name.lower()
            if attrs.plain and attrs.name(key) == name and not attrs.names:
                _keys[name] = key
    return ad


def _refuse(code: int, _data: bytes) -> object:
    raise ValueError(f"extension type {code} before authentication")


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:120]
