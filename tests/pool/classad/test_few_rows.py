"""Rows that are alike are asked once, and each gets the answer that it would have got."""

from __future__ import annotations

import numpy as np

from pool.classad import ClassAd, expr
from pool.classad.columns import FewRows, Table
from pool.classad.columns.few import ASKED_MIN, ROWS_MIN
from pool.classad.columns.vector import Array

ROWS = 2 * ROWS_MIN
JOBS = [
    "TARGET.Memory >= RequestMemory",
    'TARGET.Arch == "B" || TARGET.Memory > 2 * RequestMemory',
    "TARGET.Load < 0.5 && RequestMemory > 100",
    "TARGET.Gpus >= 1",
    "stringListMember(TARGET.Arch, Wanted)",
]


def a_row(number: int) -> ClassAd:
    ad = ClassAd({"Name": f"slot{number}", "Memory": 128 * (number % 7), "Arch": "ABC"[number % 3], "Cpus": 1})
    ad["Load"] = [0.0, -0.0, 0.5, 1.5][number % 4]
    ad["Requirements"] = expr("TARGET.RequestMemory < MY.Memory / 2") if number % 5 == 0 else True
    if number % 11 == 0:
        ad["Gpus"] = number % 2
    return ad


def a_job(requirements: str, memory: int = 200) -> ClassAd:
    return ClassAd({"Requirements": expr(requirements), "RequestMemory": memory, "Wanted": "A, B"})


def matching(few: FewRows, job: ClassAd) -> tuple[Array, bool]:
    """Where rows match, and whether it was kinds of them that were asked."""
    found, places = few.answer(lambda table: table.matches(job))
    return (found, False) if places is None else (found[places], len(found) < ROWS)


def test_each_row_gets_its_own_answer() -> None:
    table = Table([a_row(number) for number in range(ROWS)])
    few = FewRows(table)
    for round_ in range(ASKED_MIN):
        for requirements in JOBS:
            job = a_job(requirements, 60 * (round_ % 6))
            found, by_kind = matching(few, job)
            assert np.array_equal(found, table.matches(job)), requirements
            assert by_kind is (round_ * len(JOBS) + JOBS.index(requirements) >= ASKED_MIN)


def test_what_nearly_all_rows_have_another_value_of_goes_to_all_and_keeps_nobody_else_from_asking_few() -> None:
    table = Table([a_row(number) for number in range(ROWS)])
    few = FewRows(table)
    for _ in range(ASKED_MIN):
        matching(few, a_job("true"))
    picky, usual = a_job('TARGET.Name == "slot7" || regexp("99$", TARGET.Name)'), a_job(JOBS[0])
    for _ in range(3):
        for job, by_kind in ((picky, False), (usual, True)):
            found, was_by_kind = matching(few, job)
            assert np.array_equal(found, table.matches(job))
            assert was_by_kind is by_kind


def test_what_is_evaluated_row_by_row_is_asked_of_all() -> None:
    table = Table([a_row(number) for number in range(ROWS)])
    few = FewRows(table)
    job = a_job('eval(strcat("TARGET.Na", "me")) == "slot8"')
    for _ in range(ASKED_MIN + 3):
        found, by_kind = matching(few, job)
        assert not by_kind
    assert np.flatnonzero(found).tolist() == [number for number, ad in enumerate(table.ads) if ad["Name"] == "slot8"]


def test_few_are_not_asked_where_there_are_few_rows_or_few_questions() -> None:
    few = FewRows(Table([a_row(number) for number in range(ROWS_MIN - 1)]))
    assert all(few.answer(lambda table: table.matches(a_job(JOBS[0])))[1] is None for _ in range(2 * ASKED_MIN))
