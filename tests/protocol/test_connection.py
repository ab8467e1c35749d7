"""The core of a connection, without a network: handshakes, every rule that can be broken, and noise."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.base.errors import PeerError
from protocol.rpc import events
from protocol.rpc.connection import Connection, ConnectionLimits, ConnectionState
from protocol.rpc.envelope import EnvelopeKind
from protocol.rpc.handshake import ClientConnection, HandshakeRefused, ServerConnection
from protocol.security.identity import Credentials, Link
from protocol.wire import codec
from protocol.wire.frame import LONG_BYTES, FrameReader, frame
from tests.protocol.echo import NOBODY, a_security

LINK = Link(kind="unix", label="here", credentials=Credentials(pid=1, uid=NOBODY, gid=NOBODY), verified=True)


def a_client(*, wanted: str = "", limits: ConnectionLimits | None = None) -> ClientConnection:
    return ClientConnection(a_security().client(LINK), wanted=wanted, limits=limits)


def a_server(*, name: str = "schedd", port_name: str = "", limits: ConnectionLimits | None = None) -> ServerConnection:
    return ServerConnection(a_security().server(LINK), name=name, port_name=port_name, limits=limits)


def a_pair(limits: ConnectionLimits | None = None) -> tuple[ClientConnection, ServerConnection]:
    """Two connections that have shaken hands."""
    client, server = a_client(limits=limits), a_server(limits=limits)
    exchange(client, server)
    assert client.state is server.state is ConnectionState.READY
    return client, server


def exchange(client: Connection, server: Connection) -> tuple[list[events.Event], list[events.Event]]:
    """Carry bytes to and fro until neither has more to say: what the client saw, what the server saw."""
    at_client: list[events.Event] = []
    at_server: list[events.Event] = []
    while client.pending_bytes or server.pending_bytes:
        at_server += server.receive(client.take())
        at_client += client.receive(server.take())
    return at_client, at_server


def said(*message: object) -> bytes:
    return frame(codec.pack(list(message)))


def test_a_handshake_opens_both_sides() -> None:
    client, server = a_client(wanted="schedd"), a_server()
    at_client, at_server = exchange(client, server)
    assert [type(event) for event in at_client + at_server] == [events.Opened, events.Opened]
    opened = at_server[0]
    assert isinstance(opened, events.Opened)
    assert opened.who.uid == NOBODY
    assert opened.who.method == "FS"
    mine = at_client[0]
    assert isinstance(mine, events.Opened)
    assert mine.me == opened.who.identity


def test_a_handshake_byte_by_byte_comes_to_the_same() -> None:
    client, server = a_client(), a_server()
    while client.pending_bytes or server.pending_bytes:
        for byte in bytes(client.take()):
            server.receive(bytes([byte]))
        for byte in bytes(server.take()):
            client.receive(bytes([byte]))
    assert client.state is server.state is ConnectionState.READY


def test_a_call_may_come_in_the_same_bytes_as_the_end_of_the_handshake() -> None:
    client, server = a_client(), a_server()
    server.receive(client.take())
    client.receive(server.take())
    proof = bytes(client.take())
    came = server.receive(proof + said(EnvelopeKind.CALL, 1, "x", {}))
    assert [type(event) for event in came] == [events.Opened, events.Called]


def test_a_name_that_the_preface_did_not_say_is_refused() -> None:
    client, server = a_client(wanted="schedd"), a_server(name="", port_name="startd")
    with pytest.raises(PeerError, match="a connection for 'schedd' reached 'startd'"):
        exchange(client, server)
    with pytest.raises(HandshakeRefused, match="reached 'startd'"):
        client.receive(server.take())


def test_a_connection_through_the_shared_port_must_name_its_daemon() -> None:
    with pytest.raises(PeerError, match="names no daemon"):
        exchange(a_client(), a_server(name="", port_name="startd"))


def test_a_client_refuses_another_daemon_than_it_wanted() -> None:
    client = a_client(wanted="schedd")
    with pytest.raises(PeerError, match="connected to 'startd'"):
        client.receive(said(EnvelopeKind.WELCOME, {"version": 1, "name": "startd", "methods": ["FS"]}))


def test_without_a_common_version_the_server_says_why() -> None:
    server = a_server()
    with pytest.raises(PeerError, match="versions"):
        server.receive(said(EnvelopeKind.HELLO, {"versions": [99]}))
    with pytest.raises(HandshakeRefused, match="versions"):
        a_client().receive(server.take())


def test_without_a_common_method_the_client_says_what_each_side_has() -> None:
    client = a_client()
    with pytest.raises(PeerError, match="it takes KERBEROS, this side offers FS"):
        client.receive(said(EnvelopeKind.WELCOME, {"version": 1, "name": "", "methods": ["KERBEROS"]}))


def test_a_method_that_was_not_offered_is_refused() -> None:
    server = a_server()
    server.receive(said(EnvelopeKind.HELLO, {"versions": [1]}))
    with pytest.raises(PeerError, match="'ANONYMOUS' is not taken here"):
        server.receive(said(EnvelopeKind.AUTH, "ANONYMOUS", {}))
    assert server.state is ConnectionState.CLOSED


def test_fields_of_the_hello_that_are_not_known_are_ignored() -> None:
    server = a_server()
    server.receive(said(EnvelopeKind.HELLO, {"versions": [1, 2, 3], "from the future": [1]}))
    assert server.state is ConnectionState.AUTH


def test_a_call_and_its_answer() -> None:
    client, server = a_pair()
    number = client.call("x.do", {"a": 1})
    _, at_server = exchange(client, server)
    (called,) = at_server
    assert isinstance(called, events.Called)
    assert (called.tag, called.body) == ("x.do", {"a": 1})
    server.reply(called.id, [2])
    at_client, _ = exchange(client, server)
    (replied,) = at_client
    assert isinstance(replied, events.Replied)
    assert (replied.id, replied.body) == (number, [2])


def test_a_stream_is_sent_within_its_credit() -> None:
    client, server = a_pair()
    number = client.stream("x.list", {}, 2)
    exchange(client, server)
    assert server.credit_left(number) == 2
    server.item(number, "a")
    server.item(number, "b")
    assert server.credit_left(number) == 0
    exchange(client, server)
    client.credit(number, 3)
    exchange(client, server)
    assert server.credit_left(number) == 3
    server.end(number)
    at_client, _ = exchange(client, server)
    assert [type(event) for event in at_client] == [events.Ended]


def test_more_items_than_the_credit_end_the_connection() -> None:
    client, server = a_pair()
    number = client.stream("x.list", {}, 1)
    exchange(client, server)
    client.receive(said(EnvelopeKind.ITEM, number, "a"))
    with pytest.raises(PeerError, match="more items of stream 1 than were asked for"):
        client.receive(said(EnvelopeKind.ITEM, number, "b"))


def test_answers_to_what_was_cancelled_are_dropped() -> None:
    client, server = a_pair()
    number = client.call("x.slow", {})
    _, at_server = exchange(client, server)
    client.cancel(number)
    server.reply(number, "late")  # crosses the cancellation
    at_client, at_server = exchange(client, server)
    assert at_client == []
    assert at_server == []  # it was answered already
    assert client.state is ConnectionState.READY


def test_pings_are_answered_by_the_core() -> None:
    client, server = a_pair()
    client.ping()
    assert exchange(client, server) == ([], [])


def test_bulk_bytes_pass_unchanged() -> None:
    client, server = a_pair()
    data = bytes(range(256)) * 100
    client.bulk(data)
    client.bulk_end(len(data), 7)
    _, at_server = exchange(client, server)
    assert isinstance(at_server[0], events.Bulk)
    assert at_server[0].data == data
    assert isinstance(at_server[1], events.BulkEnded)


def test_a_goodbye_closes() -> None:
    client, server = a_pair()
    client.bye("done")
    _, at_server = exchange(client, server)
    assert isinstance(at_server[0], events.Closing)
    assert client.is_closed
    assert server.is_closed


@pytest.mark.parametrize(
    ("bytes_", "complaint"),
    [
        (frame(b"\xc0"), "a frame that is not a message"),
        (frame(b"\x90"), "a frame that is not a message"),
        (frame(b"\x93\x05"), "not msgpack"),
        (frame(codec.pack([1]) + b"x"), "not msgpack"),
        (b"\x00\x00\x00\x00", "a frame of 0 bytes"),
        (b"\xff\xff\xff\xff", "a frame of 4294967295 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
        (said(99), "unknown kind 99"),
        (said(-1), "unknown kind -1"),
        (said("call", 1), "a frame that is not a message"),
        (said(True), "a frame that is not a message"),
        (said(EnvelopeKind.CALL, 1, "x"), "CALL with 2 parts"),
        (said(EnvelopeKind.CALL, "1", "x", {}), "CALL with a str"),
        (said(EnvelopeKind.CALL, True, "x", {}), "CALL with a bool"),
        (said(EnvelopeKind.STREAM, 1, "x", {}, 0), "a credit of 0 items"),
        (said(EnvelopeKind.STREAM, 1, "x", {}, 10**9), "a credit of 1000000000 items"),
        (said(EnvelopeKind.REPLY, 7, 0), "an answer to 7, which was never asked"),
        (said(EnvelopeKind.FAIL, 0, "a", "b"), "an answer to 0, which was never asked"),
        (said(EnvelopeKind.ITEM, -1, 0), "an answer to -1, which was never asked"),
        (said(EnvelopeKind.END, 3), "an answer to 3, which was never asked"),
        (said(EnvelopeKind.HELLO, {}), "HELLO on a connection that is ready"),
        (said(EnvelopeKind.CALL, 1, "x", 0) * 2, "call 1 was begun twice"),
        (said(EnvelopeKind.NOTICE, "x", msgpack.ExtType(99, b"")), "extension type 99 is not known"),
    ],
)
def test_a_broken_rule_ends_the_connection_and_says_which(bytes_: bytes, complaint: str) -> None:
    for victim in a_pair():
        with pytest.raises(PeerError, match=complaint):
            victim.receive(bytes_)
        assert victim.is_closed


@pytest.mark.parametrize(
    ("bytes_", "complaint"),
    [
        (said(EnvelopeKind.CALL, 1, "x", {}), "CALL in state hello"),
        (said(EnvelopeKind.AUTH, "FS", {}), "AUTH in state hello"),
        (said(EnvelopeKind.HELLO, {"versions": [1], "wanted": 3}), "wanted is not a short text"),
        (said(EnvelopeKind.HELLO, {"versions": [1], "wanted": "x" * 1000}), "wanted is not a short text"),
        (said(EnvelopeKind.HELLO, {"versions": msgpack.ExtType(1, b"\x80")}), "before authentication"),
        (said(EnvelopeKind.HELLO, {"versions": [1], "x": "y" * 70_000}), "a frame of 70"),
    ],
)
def test_a_stranger_may_say_only_hello(bytes_: bytes, complaint: str) -> None:
    server = a_server()
    with pytest.raises(PeerError, match=complaint):
        server.receive(bytes_)


def test_nothing_is_heard_after_the_end() -> None:
    _, server = a_pair()
    with pytest.raises(PeerError):
        server.receive(said(99))
    assert server.receive(said(EnvelopeKind.CALL, 1, "x", {})) == []


def test_a_frame_is_refused_by_its_length_before_its_bytes_come() -> None:
    reader = FrameReader(bytes_max=10)
    reader.feed(b"\x00\x00\x00\x0b")
    with pytest.raises(PeerError, match="a frame of 11 bytes"):
        reader.next()


def test_the_frame_reader_cuts_anywhere() -> None:
    whole = frame(b"one") + frame(b"two") + frame(b"three")
    for step in range(1, len(whole)):
        reader, found = FrameReader(bytes_max=100), []
        for at in range(0, len(whole), step):
            reader.feed(whole[at : at + step])
            while (payload := reader.next()) is not None:
                found.append(payload)
        assert found == [b"one", b"two", b"three"]
        assert not reader.partial


def test_a_long_frame_is_taken_as_it_came_and_what_is_behind_it_is_kept() -> None:
    long = bytes(range(256)) * (LONG_BYTES // 128)
    whole = frame(b"short") + frame(long) + frame(long) + frame(b"last")
    for step in (1000, len(long) - 1, len(long) + 3, len(whole)):
        reader, found = FrameReader(bytes_max=len(long)), []
        for at in range(0, len(whole), step):
            reader.feed(whole[at : at + step])
            while (payload := reader.next()) is not None:
                found.append(payload)
            missing = reader.missing
            assert 0 <= missing <= len(long)
        assert found == [b"short", long, long, b"last"]
        assert type(found[1]) is memoryview
        assert not reader.partial


def test_the_rest_of_a_long_frame_goes_where_there_is_room_for_it() -> None:
    long = bytes(range(256)) * (LONG_BYTES // 128)
    for first in (1, 300, len(long)):
        reader, whole = FrameReader(bytes_max=len(long)), frame(long)
        assert reader.room() is None
        reader.feed(whole[:first])
        assert reader.next() is None
        sent = first
        while (room := reader.room()) is not None:
            assert len(room) == reader.missing == len(whole) - sent
            count = min(len(room), 50_000)
            room[:count] = whole[sent : sent + count]
            reader.filled(count)
            sent += count
            assert (reader.partial, reader.long_bytes) == (True, len(long))
            if sent < len(whole):
                assert reader.next() is None
        reader.feed(whole[sent:] + frame(b"behind"))
        assert (reader.next(), reader.next()) == (long, b"behind")


def test_what_is_large_is_sent_in_its_place_whatever_is_taken_of_it_at_a_time() -> None:
    client, server = a_pair()
    data = bytes(range(256)) * 2048
    client.call("first", {})
    for number in range(3):
        client.call(f"large {number}", {"n": number, "data": data})
        client.call(f"small {number}", {})
    sent, room = bytearray(), iter([5, 100_000, 0, 1_000_000])

    def send(part: bytes | bytearray | memoryview) -> int:
        taken = min(len(part), next(room, 0))
        sent.extend(part[:taken])
        return taken

    while client.pending_bytes > len(data):
        left = client.pending_bytes
        client.send_with(send)
        if client.pending_bytes == left:
            sent += client.take()
    while client.pending_bytes:
        sent += client.take()
    events = server.receive(sent)
    assert [event.tag for event in events] == [
        "first", "large 0", "small 0", "large 1", "small 1", "large 2", "small 2",
    ]  # fmt: skip
    assert [event.body["data"] for event in events if event.body] == [data] * 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


def _survives(victim: Connection, data: bytes) -> None:
    try:
        victim.receive(data)
    except PeerError:
        assert victim.is_closed


@pytest.mark.parametrize("make", [a_client, a_server, lambda: a_pair()[0], lambda: a_pair()[1]])
@settings(derandomize=True, deadline=None, max_examples=150)
@given(noise=st.binary(max_size=200))
def test_no_bytes_crash_the_core(make: Callable[[], Connection], noise: bytes) -> None:
    _survives(make(), noise)
    _survives(make(), frame(noise or b"x"))


@pytest.mark.parametrize("make", [a_client, a_server, lambda: a_pair()[0], lambda: a_pair()[1]])
@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    kind=st.sampled_from(sorted(v for k, v in vars(EnvelopeKind).items() if k.isupper())),
    parts=st.lists(VALUES, max_size=4),
)
def test_no_message_crashes_the_core(make: Callable[[], Connection], kind: int, parts: list[object]) -> None:
    _survives(make(), said(kind, *parts))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(code=st.integers(0, 127), data=st.binary(max_size=60))
def test_no_extension_type_crashes_the_codec(code: int, data: bytes) -> None:
    try:
        codec.unpack(msgpack.packb(msgpack.ExtType(code, data)))
    except PeerError:
        pass


def long_one(*message: object, size: int) -> bytes:
    """The first bytes of a message of that size, with the header that says so."""
    payload = codec.pack([*message, b"x" * 200])
    return size.to_bytes(4, "big") + payload[:150]


def test_a_long_request_is_refused_by_its_kind_before_it_has_come() -> None:
    _, server = a_pair()
    server.request_bytes_max = {"test.large": 10_000_000}.get  # type: ignore[assignment]  # a table will do
    assert server.receive(long_one(EnvelopeKind.CALL, 1, "test.large", size=9_000_000)) == []
    assert server.long_bytes == 9_000_000
    _, server = a_pair()
    server.request_bytes_max = lambda tag: 100_000
    with pytest.raises(PeerError, match=r"CALL test\.small of 100001 bytes"):
        server.receive(long_one(EnvelopeKind.CALL, 1, "test.small", size=100_001))
    assert server.is_closed


@pytest.mark.parametrize("message", [(EnvelopeKind.NOTICE, "test.note"), (EnvelopeKind.STREAM, 1, "test.count")])
def test_notices_and_streams_are_judged_too(message: tuple[object, ...]) -> None:
    _, server = a_pair()
    server.request_bytes_max = lambda tag: 100_000
    with pytest.raises(PeerError, match="of 3000000 bytes"):
        server.receive(long_one(*message, size=3_000_000))


def test_what_nobody_asked_for_is_no_long_answer() -> None:
    _, server = a_pair()
    with pytest.raises(PeerError, match="REPLY"):
        server.receive(long_one(EnvelopeKind.REPLY, 1, size=3_000_000))


def test_a_long_answer_comes_to_who_has_asked() -> None:
    client, _ = a_pair()
    client.call("test.echo", {})
    assert client.receive(long_one(EnvelopeKind.REPLY, 1, size=3_000_000)) == []


@pytest.mark.parametrize("head", [b"\xc0" * 200, b"\x94\x05\x01\xd9\xff" + b"x" * 200, b"\x91\xa1a" + b"\x00" * 200])
def test_a_long_frame_must_say_what_it_is(head: bytes) -> None:
    _, server = a_pair()
    with pytest.raises(PeerError, match=r"does not say what it is|None of"):
        server.receive((100_000).to_bytes(4, "big") + head[:150])


def test_a_connection_takes_little_memory_before_it_has_said_much() -> None:
    tracemalloc.start()
    try:
        kept = [a_client() for _ in range(20)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / len(kept) < 20_000
