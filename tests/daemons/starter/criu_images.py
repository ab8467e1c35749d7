"""CRIU's images, as somebody changes them who wants more from them than was written down.

An image is one or two magic numbers and then entries, each with its length before it; an entry is a message of protocol
buffers. Only numbers, texts and messages in messages are needed here, so no schema is.

Source: CRIU's images/*.proto for the numbers of fields; the encoding of protocol buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

Value = int | bytes
Fields = list[tuple[int, Value]]
"""The fields of a message in their order, by number; of repeated ones each."""

_COMMON: Final = {0x54564319, 0x55105940}
"""Magic numbers that are followed by one of the kind."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


def edit(path: Path, change: Callable[[list[Fields]], object]) -> None:
    """Let `change` do as it likes with the entries of an image."""
    data = path.read_bytes()
    start = 8 if struct.unpack_from("<I", data)[0] in _COMMON else 4
    entries = [fields(entry) for entry in _entries(data, start)]
    change(entries)
    packed = (pack(entry) for entry in entries)
    path.write_bytes(data[:start] + b"".join(struct.pack("<I", len(one)) + one for one in packed))


def _entries(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def fields(data: bytes) -> Fields:
    """A message's."""
    found: Fields = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            found.append((number, value))
        elif kind == _BYTES:
            size, at = _varint(data, at)
            found.append((number, data[at : at + size]))
            at += size
        else:  # none of these is in what is changed here
            raise ValueError(f"field {number} is of kind {kind}, with {_FIXED[kind]} bytes")
    return found


def pack(message: Fields) -> bytes:
    """What `fields` has read."""
    made = b""
    for number, value in message:
        if isinstance(value, int):
            made += _packed(number << 3 | _VARINT) + _packed(value)
        else:
            made += _packed(number << 3 | _BYTES) + _packed(len(value)) + value
    return made


def put(message: Fields, path: tuple[int, ...], *values: Value) -> None:
    """Have these be all that a field says; `path` leads to it through messages in messages."""
    number, *below = path
    if below:
        at = next(at for at, (one, _) in enumerate(message) if one == number)
        inner = message[at][1]
        assert isinstance(inner, bytes)
        found = fields(inner)
        put(found, tuple(below), *values)
        message[at] = number, pack(found)
        return
    message[:] = [field for field in message if field[0] != number] + [(number, value) for value in values]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _packed(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])
