"""Lines that are taken many at a time mean what they mean to the reader of all commands."""

from __future__ import annotations

from random import Random

import pytest

from pool.dag.language import reader
from pool.dag.language.errors import DagError
from pool.dag.model import Dag
from tests.pool.dag.cases import load
from tests.pool.dag.cases import reader as files_of

NAMES = ("A", "B", "C", "D", "N1", "N2", "é", "A+B", "S", "ALL_NODES", "parent", "F", "'A'")
FILES = ("n.sub", "other.sub", "x.dag.condor.sub", "{", "@=E", '"a b"', "n.sub\\", "n.sub ", "NOOP", "a'b", "é.sub")
ODD = (
    "", "# more", "// more", "SCRIPT PRE A pre.sh", "FINAL F f.sub", "SERVICE G g.sub", "SPLICE S inner.dag",
    "INCLUDE inner.dag", "DONE A", "PRIORITY B 3", "JOB E {", "}", "@E", "retry A 1", "Job Q q.sub NOOP", "WEAK PARENT A CHILD B",
    "PARENT A B CHILD C D", "RETRY A 2 UNLESS-EXIT 1", 'VARS A PREPEND a="1"', "CATEGORY A c", "MAXJOBS c 2", "JOB", "RETRY A x",
)  # fmt: skip
VALUES = (
    'a="1"',
    'b="two words"',
    'queue="x"',
    'Queued="x"',
    '+c="d"',
    'a="\\"q\\""',
    "e='f'",
    'a = "1"',
    'é="ü"',
    'a=""',
)
GAPS = (" ", " ", " ", " ", " ", "  ", "\t", "\x1f")
INNER = "JOB I i.sub\nJOB J j.sub\nPARENT I CHILD J\nRETRY J 1\n"


def a_line(dice: Random) -> str:
    one, other = dice.choice(NAMES[:6]) if dice.random() < 0.9 else dice.choice(NAMES), dice.choice(NAMES[:6])
    match dice.randrange(9):
        case 0 | 1:
            words = ["JOB", one, FILES[0] if dice.random() < 0.8 else dice.choice(FILES)]
        case 2 | 3:
            words = ["PARENT", one, "CHILD", other, *([dice.choice(NAMES)] if dice.random() < 0.1 else [])]
        case 4 | 5:
            words = ["RETRY", one, dice.choice(("0", "3", "29", "31", "99", "03", "+1", "٣"))]
        case 6 | 7:
            words = ["VARS", one, *dice.choices(VALUES[:2] if dice.random() < 0.8 else VALUES, k=dice.randrange(1, 3))]
        case _:
            return dice.choice(ODD)
    return dice.choice(GAPS).join(words) + dice.choice(("", "", "", "", "", "", "", " ", "\r", "\\"))


def a_graph(dice: Random) -> str:
    # Mostly as graphs are written, the nodes first; some of them twice.
    jobs = [f"JOB {name} n.sub" for name in NAMES[:7] if dice.random() < 0.9]
    lines = jobs + [a_line(dice) for _ in range(dice.randrange(12))]
    if dice.random() < 0.2:
        dice.shuffle(lines)
    return "\n".join(lines) + dice.choice(("", "\n"))


def meant(text: str, options: reader.Options) -> Dag | str:
    try:
        return reader.read(["x.dag"], files_of({"x.dag": text, "inner.dag": INNER}), options)
    except DagError as error:
        return str(error)


def in_both_ways(text: str, options: reader.Options, patch: pytest.MonkeyPatch) -> Dag | str:
    """What the text means, taken plainly where that can be; the same as without that."""
    plainly = meant(text, options)
    with patch.context() as patched:
        patched.setattr(reader, "take_plain_lines", lambda *_: None)
        assert meant(text, options) == plainly, text
    return plainly


@pytest.mark.parametrize("seed", range(4))
def test_made_graphs_mean_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, read = Random(seed), 0
    for _ in range(700):
        options = reader.Options(any_characters=dice.random() < 0.2, joins=dice.random() < 0.5)
        read += not isinstance(in_both_ways(a_graph(dice), options, monkeypatch), str)
    assert 100 < read < 650


def test_the_cases_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for case in (*load("good.cases"), *load("wrong.cases")):
        for text in case.files.values():
            in_both_ways(text, reader.Options(), monkeypatch)


def test_a_node_that_is_called_as_a_splice_before_it_is_refused_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_both_ways("SPLICE S inner.dag\nJOB S n.sub\n", reader.Options(), monkeypatch)
    assert "there is a splice S already" in str(found)


def test_a_large_graph_is_taken_without_the_reader_of_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_other(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(reader, "parse", no_other)
    text = "".join(f'JOB n{n} n.sub\nVARS n{n} i="{n}" j="a b"\nRETRY n{n} 3\n' for n in range(9))
    dag = meant(f"{text}{''.join(f'PARENT n0 CHILD n{n}{chr(10)}' for n in range(1, 9))}", reader.Options())
    assert isinstance(dag, Dag)
    assert (len(dag.nodes), len(dag.children[0]), dag.nodes[8].place.line) == (9, 8, 25)
    assert (dag.nodes[1].retry.times, [one.value for one in dag.nodes[1].variables]) == (3, ["1", "a b"])
