"""Records: construction, encoding by field types, and refusals that name message and field."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import pytest

from pool.base.errors import PeerError, UserError
from pool.base.ids import ClaimId, JobId
from pool.classad import ClassAd
from protocol.wire.codec import pack, unpack
from protocol.wire.kinds import decode, decode_answer, encode, encode_answer, fields_of
from protocol.wire.message import DONE, MESSAGES, Done, Message, Record, Request, StreamRequest, field, replace


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(Record):
    x: float
    y: float = 0.0


class Circle(Message, tag="test.circle"):
    centre: Point
    radius: float


class Square(Message, tag="test.square"):
    side: float


class Everything(Message, tag="test.everything"):
    flag: bool
    count: int
    ratio: float
    text: str
    data: bytes
    maybe: str | None = None
    numbers: list[int] = []
    words: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    table: dict[str, int] = {}
    colour: Colour = Colour.RED
    mode: Literal["fast", "slow"] = "fast"
    point: Point | None = None
    points: list[Point] = []
    shape: Circle | Square | None = None
    any_message: Message | None = None
    job: JobId | None = None
    claim: ClaimId | None = None
    ad: ClassAd | None = None
    either: int | list[str] | None = None
    anything: Any = None
    made: list[int] = field(default_factory=lambda: [1])


class Tree(Record):
    name: str
    children: list[Tree] = []


class Area(Request[float], tag="test.area"):
    shape: Circle | Square


class Draw(Request[Circle | Square], tag="test.draw"):
    pass


class Shapes(StreamRequest[Circle | Square], tag="test.shapes"):
    pass


class Positive(Record):
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise UserError("number is not positive")


def through_the_wire(record: Record) -> Record:
    return decode(type(record), unpack(pack(encode(record))))


def test_every_type_of_field_survives_the_wire() -> None:
    ad = ClassAd({"A": 1})
    ad.insert("B", "A + 1")
    record = Everything(
        flag=True,
        count=-(2**40),
        ratio=0.5,
        text="grüße",
        data=b"\x00\xff",
        maybe="yes",
        numbers=[1, 2],
        words=("a", "b"),
        names=frozenset({"n"}),
        table={"k": 3},
        colour=Colour.BLUE,
        mode="slow",
        point=Point(x=1.0),
        points=[Point(x=2.0, y=3.0)],
        shape=Square(side=2.0),
        any_message=Circle(centre=Point(x=0.0), radius=1.0),
        job=JobId(3, 4),
        claim=ClaimId("<here>#1#2#secret"),
        ad=ad,
        either=["x"],
        anything={"free": [1, None]},
    )
    back = through_the_wire(record)
    assert back == record
    assert isinstance(back, Everything)
    assert isinstance(back.job, JobId)
    assert isinstance(back.claim, ClaimId)
    assert back.ad is not None
    assert back.ad.eval("B") == 2


def test_defaults_fill_what_was_not_sent() -> None:
    record = decode(Everything, {"flag": False, "count": 0, "ratio": 1, "text": "", "data": b""})
    assert (record.numbers, record.colour, record.ratio, record.made) == ([], Colour.RED, 1.0, [1])
    assert type(record.ratio) is float


def test_unknown_fields_are_ignored() -> None:
    assert decode(Point, {"x": 1.0, "z": 9}) == Point(x=1.0)


def test_a_recursive_record_survives_the_wire() -> None:
    tree = Tree(name="root", children=[Tree(name="leaf"), Tree(name="twig", children=[Tree(name="leaf")])])
    assert through_the_wire(tree) == tree


FINE: Mapping[str, Any] = {"flag": True, "count": 1, "ratio": 1.0, "text": "", "data": b""}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"count": None}, "field count: expected int, got None"),
        ({"count": True}, "field count: expected int, got True"),
        ({"flag": 1}, "field flag: expected bool, got 1"),
        ({"ratio": "1"}, "field ratio: expected float, got '1'"),
        ({"text": b"x"}, "field text: expected str, got b'x'"),
        ({"text": 5}, "field text: expected str, got 5"),
        ({"data": "x"}, "field data: expected bytes, got 'x'"),
        ({"numbers": [1, "2"]}, r"field numbers\[1\]: expected int, got '2'"),
        ({"numbers": {}}, "field numbers: expected a list, got a dict of 0"),
        ({"table": {"k": "v"}}, r"field table\['k'\]: expected int, got 'v'"),
        ({"table": []}, "field table: expected a map, got a list of 0"),
        ({"colour": "green"}, "field colour: expected one of red, blue, got 'green'"),
        ({"colour": []}, "field colour: expected one of red, blue"),
        ({"mode": "medium"}, "field mode: expected one of fast, slow"),
        ({"point": {"y": 1.0}}, r"field point\.x: is missing"),
        ({"points": [{"x": 1.0}, {"x": "a"}]}, r"field points\[1\]\.x: expected float, got 'a'"),
        ({"point": 3}, "field point: expected a map, got 3"),
        ({"shape": ["test.circle", {"radius": 1.0}]}, r"field shape\.centre: is missing"),
        ({"shape": ["test.draw", {}]}, "field shape: expected .*, got "),
        ({"shape": {"side": 1.0}}, "field shape: expected .*, got a dict of 1"),
        ({"any_message": ["test.nothing", {}]}, "field any_message: expected .*"),
        ({"job": [1]}, "field job: expected .*, got a list of 1"),
        ({"job": [1, "0"]}, "field job: expected int, got '0'"),
        ({"claim": 5}, "field claim: expected .*, got 5"),
        ({"ad": {"A": 1}}, "field ad: expected .*, got a dict of 1"),
        ({"either": "text"}, "field either: expected .*, got 'text'"),
    ],
)
def test_a_wrong_field_is_refused_by_name(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PeerError, match=rf"^test\.everything: {complaint}"):
        decode(Everything, {**FINE, **changes})


@pytest.mark.parametrize("name", list(FINE))
def test_a_missing_field_is_refused_by_name(name: str) -> None:
    with pytest.raises(PeerError, match=rf"^test\.everything: field {name}: is missing"):
        decode(Everything, {key: value for key, value in FINE.items() if key != name})


@pytest.mark.parametrize("raw", [None, 1, "x", [], b""])
def test_what_is_no_map_is_no_record(raw: object) -> None:
    with pytest.raises(PeerError, match=r"^test\.everything: expected a map"):
        decode(Everything, raw)


def test_a_wrong_value_is_shown_short() -> None:
    with pytest.raises(PeerError) as caught:
        decode(Everything, {**FINE, "count": "x" * 10_000})
    assert len(str(caught.value)) < 200


def test_endless_nesting_is_refused() -> None:
    raw: dict[str, Any] = {"name": "deep"}
    for _ in range(5000):
        raw = {"name": "deep", "children": [raw]}
    with pytest.raises(PeerError, match="Tree: nested too deeply"):
        decode(Tree, raw)


def test_a_records_own_check_is_a_refusal() -> None:
    with pytest.raises(PeerError, match="Positive: number is not positive"):
        decode(Positive, {"number": 0})
    with pytest.raises(UserError):
        Positive(number=-1)


def test_answers_of_every_type() -> None:
    assert decode_answer(Area, encode_answer(Area, 2.5)) == 2.5
    assert decode_answer(Area, 2) == 2.0
    assert decode_answer(Draw, encode_answer(Draw, Square(side=1.0))) == Square(side=1.0)
    assert decode_answer(Shapes, encode_answer(Shapes, Square(side=1.0))) == Square(side=1.0)
    with pytest.raises(PeerError, match=r"^answer to test\.area: expected float, got 'x'"):
        decode_answer(Area, "x")


def test_records_are_frozen_values() -> None:
    point = Point(x=1.0)
    with pytest.raises(AttributeError, match="Point is frozen"):
        point.x = 2.0  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert point == Point(x=1.0, y=0.0)
    assert point != Point(x=1.0, y=1.0)
    assert hash(point) == hash(Point(x=1.0))
    assert replace(point, y=2.0) == Point(x=1.0, y=2.0)
    assert repr(point) == "Point(x=1.0, y=0.0)"
    assert pickle.loads(pickle.dumps(point)) == point


def test_a_claims_secret_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Everything(**FINE, claim=ClaimId("<here>#1#2#secret")))


def test_defaults_are_not_shared() -> None:
    one, other = Everything(**FINE), Everything(**FINE)
    one.numbers.append(1)
    assert other.numbers == []


def test_a_constructor_names_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="Point needs x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has no field z"):
        Point(x=1.0, z=2.0)  # type: ignore[call-arg]


def test_tags_are_unique() -> None:
    assert MESSAGES["test.circle"] is Circle
    with pytest.raises(TypeError, match=r"both have the tag 'test\.circle'"):
        type("Other", (Message,), {"__module__": __name__, "__qualname__": "Other"}, tag="test.circle")


def test_done_is_empty() -> None:
    assert encode(DONE) == {}
    assert decode(Done, {"later": 1}) == DONE


def test_fields_are_described() -> None:
    assert fields_of(Circle) == {"centre": "Point", "radius": "float"}
