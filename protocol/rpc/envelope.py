"""What every message on a connection begins with: its kind, and what must follow that.

A message is one frame: a msgpack array (https://github.com/msgpack/msgpack/blob/master/spec.md) whose first element is
one of `EnvelopeKind`. The table `SHAPES` says what follows; a frame that it does not describe ends the connection. Bulk
bytes go without an array, behind the one byte that msgpack never uses.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from pool.base.errors import PeerError

BULK_MARK: Final = 0xC1  # msgpack leaves it unused, so no message begins with it


class EnvelopeKind:
    """The first element of each message."""

    HELLO: Final = 0
    WELCOME: Final = 1
    AUTH: Final = 2
    AUTHED: Final = 3
    REFUSED: Final = 4
    CALL: Final = 5
    REPLY: Final = 6
    FAIL: Final = 7
    NOTICE: Final = 8
    STREAM: Final = 9
    ITEM: Final = 10
    CREDIT: Final = 11
    END: Final = 12
    CANCEL: Final = 13
    PING: Final = 14
    PONG: Final = 15
    BYE: Final = 16
    BULK_END: Final = 17
    BULK_FAIL: Final = 18
    BULK_HANDED: Final = 19


_ANY: Final = object
# What follows the kind in each message; bools are not ints here.
SHAPES: Final[dict[int, tuple[type, ...]]] = {
    EnvelopeKind.HELLO: (dict,),
    EnvelopeKind.WELCOME: (dict,),
    EnvelopeKind.AUTH: (str, dict),
    EnvelopeKind.AUTHED: (dict,),
    EnvelopeKind.REFUSED: (str, str),
    EnvelopeKind.CALL: (int, str, _ANY),
    EnvelopeKind.REPLY: (int, _ANY),
    EnvelopeKind.FAIL: (int, str, str),
    EnvelopeKind.NOTICE: (str, _ANY),
    EnvelopeKind.STREAM: (int, str, _ANY, int),
    EnvelopeKind.ITEM: (int, _ANY),
    EnvelopeKind.CREDIT: (int, int),
    EnvelopeKind.END: (int,),
    EnvelopeKind.CANCEL: (int,),
    EnvelopeKind.PING: (),
    EnvelopeKind.PONG: (),
    EnvelopeKind.BYE: (str,),
    EnvelopeKind.BULK_END: (int, int),
    EnvelopeKind.BULK_FAIL: (str,),
    EnvelopeKind.BULK_HANDED: (int,),
}


REQUESTS: Final = (EnvelopeKind.CALL, EnvelopeKind.STREAM, EnvelopeKind.NOTICE)


def kind_name(kind: int) -> str:
    return next((name for name, value in vars(EnvelopeKind).items() if value == kind), str(kind))


def head_of(head: bytes) -> tuple[int, str]:
    """The kind of a message by its first bytes, and the tag of a request or notice."""
    try:
        unpacker = msgpack.Unpacker(max_buffer_size=len(head))
        unpacker.feed(head)
        unpacker.read_array_header()
        kind = unpacker.unpack()
        if kind in (EnvelopeKind.CALL, EnvelopeKind.STREAM):
            unpacker.skip()
        tag = unpacker.unpack() if kind in REQUESTS else ""
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        raise PeerError("a long frame that does not say what it is") from None
    if type(kind) is not int or type(tag) is not str:
        raise PeerError("a long frame that does not say what it is")
    return kind, tag


_CHECKED: Final = {
    kind: (1 + len(shape), [(at, wanted) for at, wanted in enumerate(shape, 1) if wanted is not _ANY])
    for kind, shape in SHAPES.items()
}
"""How long a message of each kind is, and which of its parts have which type."""


def envelope_of(value: object) -> tuple[int, list[Any]]:
    """The kind and the parts of a message whose shape is right."""
    if type(value) is not list or not value or type(value[0]) is not int:
        raise PeerError("a frame that is not a message")
    kind = value[0]
    length, typed = _CHECKED.get(kind, (0, []))
    if len(value) != length:
        raise _wrong_length(kind, len(value) - 1)
    for at, wanted in typed:
        if type(value[at]) is not wanted:
            raise PeerError(f"{kind_name(kind)} with a {type(value[at]).__name__}", expected=f"{wanted.__name__}")
    return kind, value[1:]


def _wrong_length(kind: int, parts: int) -> PeerError:
    if kind not in SHAPES:
        return PeerError(f"a message of unknown kind {kind}")
    return PeerError(f"{kind_name(kind)} with {parts} parts", expected=f"{len(SHAPES[kind])}")
