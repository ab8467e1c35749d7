"""What one evaluation may cost, whatever it is: time, memory, and the same answer on every path."""

from __future__ import annotations

import resource
import time
from random import Random

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ERROR, ClassAd, expr
from pool.classad.columns import Table
from pool.classad.eval.budget import Overruns
from pool.classad.eval.patterns import MAX_PARTS, parts_of
from pool.classad.values import environment
from pool.classad.values.environment import ENV
from pool.classad.values.kept import Kept
from pool.classad.values.limits import MAX_CPU, MAX_EXPRESSION
from tests.pool.classad.bombs import SHAPES
from tests.pool.cost import least_s

MOST_S = 20 * MAX_CPU
"""Each takes one to two budgets on a machine with nothing else to do, and without a budget has no end or minutes."""


@pytest.fixture(autouse=True)
def clock() -> None:
    """Evaluations look at the processor's clock, as a daemon's do; what is imported late was imported before."""
    environment.install(cpu=time.thread_time)
    expr('regexp("a", "a")').eval()


def cost(ad: ClassAd, *, compiled: bool) -> float:
    """Seconds of processor time that the bomb takes, at best of three: the machine may be busy."""
    bomb = ad["Bomb"]
    if compiled:
        for name in ad:
            if type(ad[name]) is type(bomb):
                ad[name].compile()  # type: ignore[union-attr]
    return least_s(lambda: bomb.eval(ad), enough_s=MOST_S)  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_of_bomb_takes_much_more_than_the_budget(shape: str) -> None:
    for size in (3, 40, 150):
        for compiled in (False, True):
            took_s = cost(SHAPES[shape](size), compiled=compiled)
            assert took_s < MOST_S, (shape, size, compiled, took_s)


def test_no_mixture_of_bombs_takes_much_more_than_the_budget() -> None:
    rng = Random(5)
    for _ in range(10):
        one, other = (SHAPES[name](rng.randrange(1, 60)) for name in rng.sample(sorted(SHAPES), 2))
        ad = ClassAd({**one, **{f"Other{name}": value for name, value in other.items()}})
        ad["Second"], ad["First"] = expr(other["Bomb"].text), one["Bomb"]  # type: ignore[union-attr]
        ad["Bomb"] = expr("!isError(First) && !isError(Second) || First =?= Second")
        assert cost(ad, compiled=rng.random() < 0.5) < MOST_S


@pytest.mark.slow
def test_bombs_leave_no_memory_behind() -> None:
    def largest_kib() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    environment.install(cpu=lambda: 10 * time.thread_time())  # a tenth of the budget brings in all that is needed
    for make in SHAPES.values():
        ad = make(40)
        ad["Bomb"].eval(ad)  # type: ignore[union-attr]
    environment.install(cpu=time.thread_time)
    before = largest_kib()
    for make in SHAPES.values():
        ad = make(150)
        ad["Bomb"].eval(ad)  # type: ignore[union-attr]
    assert largest_kib() - before < 60 * 1024


def test_whoever_watches_is_told_why_an_evaluation_ended() -> None:
    bomb = SHAPES["a list that doubles"](60)
    with Overruns() as seen:
        assert bomb.eval("Bomb") is ERROR
        assert ClassAd({"x": 1}).eval("x") == 1
    assert seen.count == 2
    assert "it takes more than" in seen.reason


def test_what_is_cut_is_an_error_as_a_whole() -> None:
    bomb = SHAPES["a list that doubles"](60)
    for text in ('isError(size(string(Bomb))) || isError(Bomb[0][0]) || size(split(string(eval("Bomb")))) > 0',):
        with Overruns() as seen:
            value = expr(f'({text}) || true || anyCompare("<", {{Bomb}}, 1)').eval(bomb)
        assert seen.count == 0 or value is ERROR


def test_without_a_clock_the_steps_alone_decide() -> None:
    ENV.cpu = None
    for make in SHAPES.values():
        ad = make(4)
        first = [ad["Bomb"].eval(ad) for _ in range(2)]  # type: ignore[union-attr]
        assert first[0] == first[1]


def test_columns_fall_back_to_rows_that_are_counted() -> None:
    rows = [ClassAd({"Name": f"slot{i}", "S": "a" * 40 + "X"}) for i in range(10)]
    table = Table(rows)
    text = 'regexp("(a|aa)+$", S) || Name == "slot3"'
    assert least_s(table.eval(expr(text)).values, enough_s=10 * MOST_S) < 10 * MOST_S
    found = Table(rows).eval(expr(text)).values()
    assert found == [expr(text).eval(row) for row in rows]
    table = Table(rows)
    plain = expr('regexp("^slot[0-9]$", Name) && stringListMember("a", "a,b")')
    table.eval(plain)
    assert table.fallbacks == 0


def test_a_pattern_that_would_be_too_large_is_refused_before_it_is_compiled() -> None:
    assert parts_of(b"(?:a?){50000}") > MAX_PARTS
    assert parts_of(b"((a{99}){99}){99}") > MAX_PARTS
    assert parts_of(b"a{2}(bc){3}[xyz{9}]{4}") < 40
    assert expr('regexp("(?:a?){50000}", "a")').eval() is ERROR
    assert expr('regexp("^(?:ab){2,900}$", "ababab")').eval() is True


def test_an_expression_has_a_length() -> None:
    assert expr("1+" * 1_000 + "1").eval() == 1_001
    with pytest.raises(ClassAdError, match="an expression of") as error:
        expr("1+" * MAX_EXPRESSION + "1")
    assert str(MAX_EXPRESSION) in str(error.value)
    assert str(error.value).startswith("expression:1:1: ")


def test_a_string_may_be_longer() -> None:
    text = "x" * (3 * MAX_EXPRESSION)
    assert expr(f'"{text}"', old=True).eval() == text
    assert expr(f'strcat("{text}", "a\\"b") == 1').text
    with pytest.raises(ClassAdError, match="an expression of"):
        expr(f'"{text}" == ' + "1+" * MAX_EXPRESSION + "1")


def test_a_cache_forgets_what_nobody_asks_for() -> None:
    kept: Kept[int, str] = Kept(1_000)
    kept.put(1, "used", 10)
    for number in range(2, 1_000):
        kept.put(number, "new", 10)
        assert kept.find(1) == "used"
        assert len(kept) <= 101
    kept.put(7, "too large", 900)
    assert kept.find(2) is None
