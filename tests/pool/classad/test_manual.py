"""What HTCondor's documents on ClassAds state as values: comparisons, expressions, nested ads, policies of machines."""

from __future__ import annotations

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ERROR, UNDEFINED, ClassAd, expr, parse_ad

LETTERS = {True: "T", False: "F"}


def value(text: str, ad: ClassAd | None = None, target: ClassAd | None = None) -> object:
    """A value; U and E stand for undefined and error, T and F for the truth values."""
    found = expr(text).eval(ad or ClassAd({"Other": 1}), target)
    if isinstance(found, bool):
        return LETTERS[found]
    return "U" if found is UNDEFINED else "E" if found is ERROR else found


@pytest.mark.parametrize(
    ("left", "right", "values"),
    [
        ("10", "10", "TFTF"),
        ("10", "5", "FTFT"),
        ("10", '"ABC"', "EEFT"),
        ('"ABC"', '"abc"', "TFFT"),
        ("10", "undefined", "UUFT"),
        ("undefined", "undefined", "UUTF"),
    ],
)
def test_comparisons(left: str, right: str, values: str) -> None:
    assert "".join(str(value(f"{left} {operator} {right}")) for operator in ("==", "!=", "=?=", "=!=")) == values
    assert "".join(str(value(f"{left} {operator} {right}")) for operator in ("is", "isnt")) == values[2:]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('10 * "A string"', "E"), ('3 * "abc"', "E"), ("1/0", "E"), ("{1,2,3}[5]", "E"), ("27[5]", "E"),
        ("undefined && false", "F"), ("undefined || false", "U"), ("false || undefined", "U"),
        ("undefined || true", "T"), ('true && "foobar"', "E"), ("1 && 2", "T"), ("2.5 && true", "T"), ("0 || 0", "F"),
        ("undefined ?: 7", 7), ("3 ?: 7", 3), ("0 ?: 7", 0), ("false ?: 7", "F"), ("undefined ? 1 : 2", "U"),
        ("error ? 1 : 2", "E"), ("error ?: 7", "E"), ("5 / 2", 2), ("5.0 / 2", 2.5), ('"a" < 3', "E"),
        ("true ? 1 : error", 1), ("false ? error : 2", 2), ("false && error", "F"), ("error && false", "E"),
        ("true + 1", 2), ("true == 1", "T"), ("true =?= 1", "F"), (".5", 0.5), ("1e3", 1000.0), ("1.5e3", 1500.0),
    ],
)  # fmt: skip
def test_expressions(text: str, wanted: object) -> None:
    assert value(text) == wanted


def test_names_are_looked_up_from_the_innermost_record_outwards() -> None:
    ad = parse_ad("[ a = 1; b = c; d = [ f = g; i = a; j = c; k = l; a = 2; ]; l = d.k; c = 3; ]")
    wanted = {"a": 1, "b": 3, "c": 3, "l": "U", "d.f": "U", "d.i": 2, "d.j": 3, "d.k": "U", "d.a": 2}
    assert {name: value(name, ad) for name in wanted} == wanted
    with pytest.raises(ClassAdError):
        parse_ad("[ d = [ f = g ] l = d.k ]")


def test_parts_of_ads() -> None:
    ad = parse_ad(
        '[ type = "gizmo"; components = { [ type = "widget"; part_number = 12394 ],'
        ' [ type = "widget"; part_number = 92348 ] };'
        " main_component = components[0]; main_part = main_component.part_number ]"
    )
    assert value("main_part", ad) == 12394


def test_what_is_computed_from_sizes() -> None:
    ad = ClassAd({"MemoryInMegs": 512, "Cpus": 4})
    for name, text in {
        "MemoryInBytes": "MemoryInMegs * 1024 * 1024",
        "BigMachine": "(MemoryInMegs > 256) && (Cpus >= 4)",
        "VeryBigMachine": "(MemoryInMegs > 512) && (Cpus >= 8)",
        "FastMachine": "BigMachine && SpeedRating",
    }.items():
        ad[name] = expr(text)
    wanted = {"MemoryInBytes": 536870912, "BigMachine": "T", "VeryBigMachine": "F", "FastMachine": "U"}
    assert {name: value(name, ad) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("owner", "load", "idle", "wanted"),
    [
        ("smith", 5.0, 0, "T"), ("other", 0.3, 901, "T"), ("other", 0.31, 901, "F"), ("other", 0.1, 173, "F"),
    ],
)  # fmt: skip
def test_a_machine_that_smith_may_always_use(owner: str, load: float, idle: int, wanted: str) -> None:
    machine = ClassAd({"LoadAvg": load, "KeyboardIdle": idle})
    text = 'TARGET.Owner=="smith" || LoadAvg<=0.3 && KeyboardIdle>15*60'
    assert value(text, machine, ClassAd({"Owner": owner})) == wanted


OWNERS = [
    # owner, START when busy, when idle, at 900 seconds exactly, RANK
    ("rival", "FFF", 0), ("riffraff", "FFF", 0), ("jbasney", "TTT", 10), ("raman", "TTT", 10),
    ("tannenba", "FTF", 1), ("wright", "FTF", 1), ("smith", "FTF", 0),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "starts", "rank"), OWNERS)
def test_a_machine_knows_friends_strangers_and_rivals(owner: str, starts: str, rank: int) -> None:
    machine = ClassAd()
    for name, text in {
        "Friend": 'Owner == "tannenba" || Owner == "wright"',
        "ResearchGroup": 'Owner == "jbasney" || Owner == "raman"',
        "Trusted": 'Owner != "rival" && Owner != "riffraff"',
        "START": "Trusted && ( ResearchGroup || LoadAvg < 0.3 && KeyboardIdle > 15*60 )",
        "RANK": "Friend + ResearchGroup*10",
    }.items():
        machine[name] = expr(text)
    job, found = ClassAd({"Owner": owner}), ""
    for load, idle in ((0.5, 0), (0.1, 901), (0.1, 900)):
        machine["LoadAvg"], machine["KeyboardIdle"] = load, idle
        found += str(value("START", machine, job))
    assert (found, value("RANK", machine, job)) == (starts, rank)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ('Owner == "coltrane" || Owner == "tyner"', ["T", "T", "F", "F"]),
        (
            '(Owner == "coltrane") + (Owner == "tyner") + ((Owner == "garrison") * 10) + (Owner == "jones")',
            [1, 1, 10, 1],
        ),
        ('(Owner == "coltrane" * 1000000000000) + ImageSize', ["E", "E", "E", "E"]),
        ('((Owner == "coltrane") * 1000000000000) + ImageSize', [1000000000005, 5, 5, 5]),
    ],
)
def test_ranks_of_owners(text: str, ranks: list[object]) -> None:
    owners = ("coltrane", "tyner", "garrison", "jones")
    assert [value(text, ClassAd({"Name": "m"}), ClassAd({"Owner": one, "ImageSize": 5})) for one in owners] == ranks
