"""What a connection reports: one small class per thing that can happen.

Written out by hand, since a dozen NamedTuples or dataclasses would cost every tool 5 ms of its start.
"""

from __future__ import annotations

from typing import Any

from protocol.security.identity import Who


class Opened:
    """The handshake is over; `who` is the other side. `me` is this side's name in the other's eyes (client only)."""

    __slots__ = __match_args__ = ("who", "me")

    def __init__(self, who: Who, me: str) -> None:
        self.who = who
        self.me = me


class Called:
    """The peer asks; answer with `reply` or `fail`."""

    __slots__ = __match_args__ = ("id", "tag", "body")

    def __init__(self, id: int, tag: str, body: object) -> None:
        self.id = id
        self.tag = tag
        self.body = body


class Streamed:
    """The peer asks for items; send them with `item` within its credit, then `end` or `fail`."""

    __slots__ = __match_args__ = ("id", "tag", "body", "credit")

    def __init__(self, id: int, tag: str, body: object, credit: int) -> None:
        self.id = id
        self.tag = tag
        self.body = body
        self.credit = credit


class Noticed:
    """The peer says something and waits for nothing."""

    __slots__ = __match_args__ = ("tag", "body")

    def __init__(self, tag: str, body: object) -> None:
        self.tag = tag
        self.body = body


class Replied:
    """The answer to a call."""

    __slots__ = __match_args__ = ("id", "body")

    def __init__(self, id: int, body: object) -> None:
        self.id = id
        self.body = body


class Failed:
    """A call or stream of ours came to nothing."""

    __slots__ = __match_args__ = ("id", "code", "message")

    def __init__(self, id: int, code: str, message: str) -> None:
        self.id = id
        self.code = code
        self.message = message


class Item:
    """One more item of a stream of ours."""

    __slots__ = __match_args__ = ("id", "body")

    def __init__(self, id: int, body: object) -> None:
        self.id = id
        self.body = body


class Ended:
    """A stream of ours is complete."""

    __slots__ = __match_args__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id


class Credited:
    """The peer takes more items of a stream that we send."""

    __slots__ = __match_args__ = ("id", "more")

    def __init__(self, id: int, more: int) -> None:
        self.id = id
        self.more = more


class Cancelled:
    """The peer no longer wants the answer to a call or stream."""

    __slots__ = __match_args__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id


class Bulk:
    """Raw bytes of a file."""

    __slots__ = __match_args__ = ("data",)

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data


class BulkHanded:
    """The file itself was handed over, as a `protocol.network.unix_stream.OpenFile`; its bytes do not follow."""

    __slots__ = __match_args__ = ("size", "file")

    def __init__(self, size: int, file: Any = None) -> None:
        self.size = size
        self.file = file


class BulkEnded:
    """A file is complete: its size and CRC-32."""

    __slots__ = __match_args__ = ("size", "crc")

    def __init__(self, size: int, crc: int) -> None:
        self.size = size
        self.crc = crc


class BulkFailed:
    """The sender cannot go on with the file."""

    __slots__ = __match_args__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


class Closing:
    """The peer leaves on purpose."""

    __slots__ = __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


Event = (
    Opened
    | Called
    | Streamed
    | Noticed
    | Replied
    | Failed
    | Item
    | Ended
    | Credited
    | Cancelled
    | Bulk
    | BulkHanded
    | BulkEnded
    | BulkFailed
    | Closing
)
