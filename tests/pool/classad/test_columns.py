"""Columns give the answers of the scalar evaluator: for any expression, any ads, in both directions of a match."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pool.classad import UNDEFINED, ClassAd, Expr, accepts, expr, is_match, parse_ad, rank
from pool.classad.columns import Table, Vector
from pool.classad.columns.vector import NoColumn
from pool.classad.eval.ad import same
from tests.pool.classad.generate import Generator

KEPT_BYTES_MAX = 64 << 20
NAMES = ["a", "b", "c", "d", "s", "t", "e", "f"]
LITERALS = ["0", "1", "2", "-3", "7", "9223372036854775807", "0.0", "1.5", "-2.5", "1e308", "true", "false", "undefined",
            "error", '"x"', '"X"', '"y"', '"12"', '""']  # fmt: skip
OPERATORS = ["&&", "||", "==", "!=", "<", "<=", ">", ">=", "=?=", "=!=", "+", "-", "*", "/", "%", "&", "<<", ">>", "?:"]
CALLS = ["isUndefined({0})", "ifThenElse({0}, {1}, {2})", "int({0})", "strcat({0}, {1})", "toUpper({0})", "min({{{0}}})",
         "regexp(\"^x\", {0}, \"i\")", "stringListMember({0}, \"x,y\")", "pow({0}, {1})", "floor({0})", "isError({0})",
         "versionGE({0}, {1})", "substr({0}, {1})", "max({{{0}, {1}}})", "member({0}, {{{1}, {2}}})",
         "split({0}, {1})[0]", "size(split({0}))"]  # fmt: skip


class Columnar:
    """Expressions and ads of the kind that policies are made of, from a source of chance."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def expression(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            if rng.random() < 0.35:
                return rng.choice(LITERALS)
            return rng.choice(["", "", "MY.", "TARGET."]) + rng.choice([*NAMES, "nosuch"])
        kind = rng.randrange(12)
        inner = depth - 1
        if kind < 8:
            return f"({self.expression(inner)} {rng.choice(OPERATORS)} {self.expression(inner)})"
        if kind < 9:
            return f"({rng.choice('-+!~!!')}({self.expression(inner)}))"
        if kind < 10:
            return f"({self.expression(inner)} ? {self.expression(inner)} : {self.expression(inner)})"
        return rng.choice(CALLS).format(*(self.expression(inner) for _ in range(3)))

    def rows(self, count: int) -> list[ClassAd]:
        """Ads alike enough to be a table: most attributes of one type, some expressions that several share."""
        rng = self.rng
        shared = [expr(self.expression(2)) for _ in range(3)]
        kinds = {name: rng.randrange(8) for name in NAMES}
        return [
            ClassAd({name: v for name in NAMES if (v := self.value(kinds[name], shared)) is not None})
            for _ in range(count)
        ]

    def value(self, kind: int, shared: list[Expr]) -> Any:
        rng = self.rng
        if rng.random() < 0.1:
            return None if rng.random() < 0.5 else UNDEFINED
        match kind:
            case 0 | 1:
                return rng.choice([0, 1, 2, 7, -3, 2**63 - 1])
            case 2:
                return rng.choice([0.0, 1.5, -2.5, 1e308, 3.0])
            case 3:
                return rng.random() < 0.5
            case 4:
                return rng.choice(["x", "X", "y", "12", ""])
            case 5:
                return rng.choice(shared)
            case 6:
                return rng.choice([shared[0], shared[0], 1, "x"])
            case _:
                return shared[0] if rng.random() < 0.97 else [1, 2]


def column(table: Table, expression: Expr, **ads: ClassAd) -> list[Any] | None:
    try:
        return table.eval(expression, **ads).values()
    except NoColumn:
        return None


def agree(columns: list[Any] | None, scalars: list[Any]) -> bool:
    """Whether both are the same; columns only give up where lists or ads are among the values."""
    if columns is None:
        return any(isinstance(value, list | ClassAd) or not _is_scalar(value) for value in scalars)
    return len(columns) == len(scalars) and all(same(a, b) for a, b in zip(columns, scalars, strict=True))


def _is_scalar(value: Any) -> bool:
    return type(value) in (bool, int, float, str) or type(value).__name__ in ("Undefined", "Error", "AbsTime")


def check(rng: Random, generator: Any) -> int:
    """Compare for one table, one other ad and some expressions; how many of them had a column form."""
    columnar = Columnar(rng)
    rows = columnar.rows(12)
    other = columnar.rows(1)[0]
    table = Table(rows)
    count = 0
    for _ in range(4):
        text = generator.expression(3)
        expression = expr(text)
        before = table.fallbacks
        assert agree(column(table, expression, my=other), [expression.eval(other, row) for row in rows]), text
        assert agree(column(table, expression, target=other), [expression.eval(row, other) for row in rows]), text
        count += table.fallbacks == before
        # Rows change, and the answers with them.
        row = rng.randrange(len(rows))
        rows[row] = columnar.rows(1)[0] if rng.random() < 0.5 else rows[row - 1].copy()
        table.replace(row, rows[row])
    return count


EVERYTHING = list(HealthCheck)


@settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=EVERYTHING,
    database=None,
    phases=[Phase.generate],
)
@given(rng=st.randoms(use_true_random=False))
def test_columns_equal_scalars(rng: Random) -> None:
    check(rng, Columnar(rng))


@pytest.mark.parametrize("block", range(5))
def test_columns_equal_scalars_for_seeded_policies(block: int) -> None:
    covered = sum(check(Random(seed), Columnar(Random(seed + 1))) for seed in range(block * 80, block * 80 + 80))
    assert covered > 80  # of 320: most have a column form, so that columns are what was tested


def test_columns_equal_scalars_over_the_whole_grammar() -> None:
    for seed in range(200):
        check(Random(seed), Generator(Random(seed)))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_columns_equal_scalars_for_a_long_time() -> None:
    for seed in range(10_000, 40_000):
        check(Random(seed), Columnar(Random(seed + 1)))


def machines(count: int) -> list[ClassAd]:
    rng = Random(5)
    policies = ['KeyboardIdle > 900 && TARGET.Owner != "eve"', "true", "TARGET.RequestMemory <= MY.Memory / 2"]
    return [
        parse_ad(
            f'[ Name = "slot{i}"; OpSys = "{rng.choice(["LINUX", "linux", "macOS"])}"; Cpus = {rng.randrange(9)};'
            f" Memory = {rng.randrange(8000)}; KeyboardIdle = {rng.randrange(1800)}; Start = {rng.choice(policies)};"
            " Requirements = START && TARGET.RequestCpus <= Cpus ]"
        )
        for i in range(count)
    ]


def test_matches_and_ranks_are_those_of_single_matches() -> None:
    job = parse_ad(
        '[ Owner = "eve"; RequestCpus = 2; RequestMemory = 1000; Rank = TARGET.Memory - 10.5 * Cpus;'
        ' Requirements = TARGET.OpSys == "LINUX" && TARGET.Memory >= RequestMemory ]'
    )
    rows = machines(400)
    table = Table(rows)
    assert table.matches(job).tolist() == [is_match(job, row) for row in rows]
    assert table.accepting(job).tolist() == [accepts(row, job) for row in rows]
    assert table.ranks(job).tolist() == [rank(job, row) for row in rows]
    assert table.fallbacks == 0


def test_what_has_no_column_form_is_evaluated_row_by_row() -> None:
    rows = machines(20)
    rows[3]["TARGET"] = 3  # a name that means a scope
    rows[4]["Memory"] = [1, 2]
    job = parse_ad("[ RequestCpus = 1; Requirements = TARGET.Memory > 100; Rank = size(TARGET.Memory) ?: 2 ]")
    table = Table(rows)
    assert table.matches(job).tolist() == [is_match(job, row) for row in rows]
    assert table.ranks(job).tolist() == [rank(job, row) for row in rows]
    assert table.fallbacks


def test_functions_of_lists_are_computed_once_for_rows_that_store_the_same() -> None:
    rows = [ClassAd({"v": f"a {number % 3}", "f": expr("max({n, 1})"), "n": number % 2}) for number in range(50)]
    job = ClassAd({"n": 7, "least": expr("max({ 1,n })")})
    table = Table(rows)
    for text in ('split(TARGET.v)[1] == "2"', "TARGET.f < least", 'size(split(v, " ")) + f'):
        expression = expr(text)
        found = table.eval(expression, my=job).values()
        assert found == [expression.eval(job, row) for row in rows]
    assert table.fallbacks == 0


def test_what_differs_from_one_evaluation_to_the_next_is_never_taken_for_alike() -> None:
    rows = [ClassAd({"n": 1}) for _ in range(200)]
    table = Table(rows)
    drawn = table.eval(expr("max({ random(1000000),n })"), my=ClassAd()).values()
    assert table.fallbacks == 1
    assert len(set(drawn)) > 1


def test_a_list_in_a_circle_is_undefined_where_the_scalar_evaluator_has_it() -> None:
    rows = [ClassAd({"a": expr("max({ b,1 })"), "b": expr("max({ a,2 })"), "n": number}) for number in range(20)]
    table = Table(rows)
    for text in ("a", "b", "max({ a,n })", "TARGET.a =?= undefined"):
        assert table.eval(expr(text), my=ClassAd()).values() == [expr(text).eval(ClassAd(), row) for row in rows]


def test_values_that_are_kept_are_bounded_by_their_bytes() -> None:
    table = Table([ClassAd({"Memory": number}) for number in range(20_000)])
    for number in range(4_500):
        table.eval(expr(f"TARGET.Memory > {number}"), my=ClassAd())
    kept = [value for _, value in table.kept.values() if isinstance(value, Vector)]
    assert len(kept) > 100
    assert sum(value.data.nbytes for value in kept) <= KEPT_BYTES_MAX


def test_an_error_in_a_row_stays_in_that_row() -> None:
    table = Table([ClassAd({"a": 1}), ClassAd({"a": "x"}), ClassAd({}), ClassAd({"a": 0})])
    assert [repr(v) for v in table.eval(expr("10 / a")).values()] == ["10", "ERROR", "UNDEFINED", "ERROR"]
