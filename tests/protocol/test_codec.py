"""ClassAds on the wire, and the private halves of ads."""

from __future__ import annotations

import msgpack
import pytest

from pool.base.errors import PeerError
from pool.classad import ERROR, UNDEFINED, AbsTime, ClassAd, RelTime, expr
from protocol.wire import codec
from protocol.wire.ad_table import unpack_ads
from protocol.wire.codec import (
    AD,
    EXPRESSION,
    UNCOUNTED_BYTES,
    is_private,
    make_ads,
    pack,
    pack_ads,
    pack_in_two,
    split_private,
    unpack,
    unpack_plain,
)


def an_ad() -> ClassAd:
    ad = ClassAd(
        {
            "MyType": "Machine",
            "Cpus": 8,
            "LoadAvg": 0.25,
            "Active": True,
            "Nothing": UNDEFINED,
            "Broken": ERROR,
            "At": AbsTime(1_700_000_000, 3600),
            "Span": RelTime(1.5),
            "List": [1, "two", 3.0, UNDEFINED],
            "Nested": ClassAd({"Inner": ClassAd({"Deep": 1})}),
        }
    )
    ad.insert("Requirements", "TARGET.RequestMemory <= Memory && START")
    ad.insert("Mixed", "{1, Cpus + 1, [a = b]}")
    return ad


def test_an_ad_survives_the_wire() -> None:
    ad = an_ad()
    back = unpack(pack(ad))
    assert isinstance(back, ClassAd)
    assert back == ad
    assert list(back) == list(ad)
    assert back.text("Requirements") == ad.text("Requirements")
    assert back.long() == ad.long()


def test_types_of_literals_are_kept() -> None:
    back = unpack(pack(ClassAd({"I": 1, "R": 1.0, "B": True, "S": "1"})))
    assert [type(back[name]) for name in back] == [int, float, bool, str]


def test_a_chained_ad_travels_flat() -> None:
    cluster = ClassAd({"Cmd": "/bin/true", "ProcId": -1})
    proc = ClassAd({"ProcId": 3}, parent=cluster)
    back = unpack(pack(proc))
    assert (back["Cmd"], back["ProcId"], back.parent) == ("/bin/true", 3, None)


def test_many_ads_travel_as_one_value() -> None:
    ads = [an_ad(), ClassAd({"A": 1})]
    assert unpack_ads(pack_ads(ads)) == ads
    assert unpack_ads(pack_ads([])) == []


@pytest.mark.parametrize("size", [0, 1, UNCOUNTED_BYTES, UNCOUNTED_BYTES + 1, 1 << 20])
def test_a_message_that_ends_with_many_bytes_is_the_same_in_two_parts(size: int) -> None:
    for body in ({"n": 1, "data": bytes(size)}, {"data": bytes(size), "n": 1}, bytes(size), {}, {"n": [b"x"]}):
        message = (6, 77, body)
        head, tail = pack_in_two(message)
        assert unpack(head + tail) == unpack(pack(message))
        assert head + tail == pack(message)
        ends_with_them = type(body) is dict and list(body)[-1:] == ["data"]
        assert bool(tail) == (ends_with_them and size > UNCOUNTED_BYTES)


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**64 - 1, 2**70, 1.5, "x", "\udcff", b"x", [1, [2]], {"a": {}}]
)
def test_plain_values_survive_the_wire(value: object) -> None:
    assert unpack(pack(value)) == value


def test_text_that_is_not_utf8_is_kept() -> None:
    ad = ClassAd({"Odd": "caf\udce9"})
    ad.insert("E", 'Odd == "x"')
    assert unpack(pack(ad)) == ad


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xc0\xc0",
        b"\x92\x01",
        b"\xa5abc",
        b"\x81\x01\x02",  # a map whose key is no text
        msgpack.packb(msgpack.ExtType(AD, b"\x01")),
        msgpack.packb(msgpack.ExtType(AD, b"\x81\xa1a")),
        msgpack.packb(msgpack.ExtType(EXPRESSION, b"1 +")),
        msgpack.packb(msgpack.ExtType(77, b"")),
        b"\x91" * 5000 + b"\xc0",
    ],
)
def test_what_was_not_packed_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        unpack(data)


def test_ads_nested_without_end_are_refused() -> None:
    data = pack({})
    for _ in range(500):
        data = msgpack.packb({"a": msgpack.ExtType(AD, data)})
    with pytest.raises(PeerError, match="nested"):
        unpack(data)
    assert unpack(pack(an_ad())) == an_ad()  # and the count of depth is back at zero


def test_strangers_cannot_send_ads() -> None:
    with pytest.raises(PeerError, match="before authentication"):
        unpack_plain(pack(ClassAd({"A": 1})))


@pytest.mark.parametrize("data", [pack(1), pack({"a": 1}), pack([1]), b"\xc1"])
def test_packed_ads_are_a_list_of_maps(data: bytes) -> None:
    with pytest.raises(PeerError):
        unpack_ads(data)


def test_capabilities_are_private() -> None:
    for name in ("ClaimId", "CLAIMIDS", "Capability", "ChildClaimIds", "TransferKey", "_condor_privSomething"):
        assert is_private(name)
    for name in ("PublicClaimId", "Name", "ClaimIdentity"):
        assert not is_private(name)


def test_an_ad_is_split_into_its_halves() -> None:
    ad = ClassAd({"Name": "slot1", "ClaimId": "secret", "Cpus": 1, "Capability": "also"})
    public, private = split_private(ad)
    assert list(public) == ["Name", "Cpus"]
    assert private is not None
    assert dict(private.items()) == {"ClaimId": "secret", "Capability": "also"}
    assert "ClaimId" in ad


def test_an_ad_without_capabilities_is_left_as_it_is() -> None:
    ad = ClassAd({"Name": "slot1"})
    public, private = split_private(ad)
    assert public is ad
    assert private is None


def test_spellings_of_names_are_kept_whatever_was_met_before() -> None:
    for names in (
        ["Memory", "CPUS"],
        ["MEMORY", "Cpus"],
        ["memory", "CPUS"],
        ["Memory", "CPUS"],
        ["Target", "TARGET2"],
    ):
        ad = ClassAd(dict.fromkeys(names, 1))
        back = unpack(pack(ad))
        assert list(back) == names
        assert back == ad
        assert back.get("cpus") == ad.get("cpus")


def test_names_that_mean_scopes_do_not_mislead() -> None:
    ad = ClassAd({"Target": 1, "X": 2})
    ad.insert("Y", "X + 1")
    for _ in range(2):
        ad = unpack(pack(ad))
        assert ad.eval("Y") == 3
        assert ad["target"] == 1


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(PeerError, match="no text"):
        unpack(msgpack.packb(msgpack.ExtType(AD, msgpack.packb({b"A": 1}))))


def test_integers_that_ads_cannot_hold_are_refused() -> None:
    for _ in range(2):
        with pytest.raises(PeerError):
            unpack(msgpack.packb(msgpack.ExtType(AD, msgpack.packb({"TooBig": 2**64 - 1}))))


EMPTY_ARRAYS = b"\xdd" + (500_000).to_bytes(4, "big") + b"\x90" * 500_000
SHORT_TEXTS = b"\xdd" + (400_000).to_bytes(4, "big") + b"\xa2ab" * 400_000
NUMBERS = b"\xdd" + (400_000).to_bytes(4, "big") + b"\xcd\x12\x34" * 400_000


@pytest.mark.parametrize("data", [EMPTY_ARRAYS, SHORT_TEXTS, NUMBERS], ids=["arrays", "texts", "numbers"])
def test_values_that_would_take_many_times_their_bytes_are_not_made(data: bytes) -> None:
    with pytest.raises(PeerError, match="values in"):
        unpack(data)


@pytest.mark.parametrize(
    "value",
    [
        ["job Привет " * 40] * 3000,
        [b"\xff\x90\x80" * 100_000, "text"],
        {str(number): [number, 0.5, None, True] for number in range(30_000)},
        [[number, number % 7] for number in range(50_000)],
        list(range(2**40, 2**40 + 20_000)),
    ],
    ids=["text", "bytes", "map", "job ids", "large numbers"],
)
def test_long_messages_of_ordinary_values_pass(value: object) -> None:
    packed = pack(value)
    assert len(packed) > UNCOUNTED_BYTES
    assert unpack(packed) == value


def test_a_long_value_that_is_cut_is_refused_like_a_short_one() -> None:
    packed = pack(["Привет " * 40] * 3000)
    with pytest.raises(PeerError, match="not msgpack"):
        unpack(packed[:-5])


def test_nesting_has_an_end() -> None:
    with pytest.raises(PeerError, match="not msgpack"):
        unpack(b"\x91" * 100_000 + b"\x90")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 16, 17, 31, 32, 255, 256, 65_535, 65_536])
def test_what_a_value_says_of_its_length_is_passed_over_when_values_are_counted(size: int) -> None:
    raw = b"\x90" * size
    numbers = [-1, -200, -(2**15), -(2**31), -(2**60), 200, 2**15, 2**31, 2**60, 0.5]
    for value in (raw, "x" * size, msgpack.ExtType(5, raw), *numbers, None, True):
        # A length that is read wrongly takes some of the bytes for arrays, or the value behind them for some of them.
        packed = msgpack.packb(value) + b"\xc0"
        assert codec._has_at_most(2, packed)
        assert not codec._has_at_most(1, packed)


def test_no_extension_hides_what_stands_behind_it() -> None:
    # Read a byte too early, its last byte would be the beginning of a text that takes up all that follows.
    hidden = msgpack.packb(msgpack.ExtType(5, b"x" * 299 + b"\xdb"))
    with pytest.raises(PeerError, match="values in"):
        unpack(b"\x92" + hidden + EMPTY_ARRAYS)


def test_ads_of_the_same_names_come_as_the_first_of_them_did() -> None:
    names = [f"Attr{number}" for number in range(20)]
    values: list[object] = [
        1,
        2**62,
        -(2**63),
        1.5,
        True,
        "text",
        [],
        [1, [2.5]],
        expr("A + 1"),
        UNDEFINED,
        ClassAd({"B": 1}),
    ]
    for turn in range(2 * len(values)):
        ad = ClassAd({name: values[(at + turn) % len(values)] for at, name in enumerate(names)})
        (again,) = make_ads([unpack(pack(dict(ad.attrs.spelled())))])
        assert again.long() == ad.long()


def test_a_number_that_no_ad_holds_is_refused_among_ads_of_the_same_names() -> None:
    row: dict[str, object] = {f"Attr{number}": number for number in range(20)}
    for number in (7, 2**63 - 1):
        assert make_ads([{**row, "Attr7": number}])[0].eval_int("Attr7") == number
    with pytest.raises(PeerError, match="64 bits"):
        make_ads([{**row, "Attr7": 2**63}])


def test_spellings_of_the_same_names_are_kept_apart() -> None:
    rows = [
        {(f"Attr{number}" if number != odd else f"ATTR{number}"): number for number in range(20)}
        for odd in (20, 3, 20, 3)
    ]
    assert [[*ad] for ad in make_ads(rows)] == [[*row] for row in rows]
