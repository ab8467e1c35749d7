"""Groups, their quotas, and what they leave to each other: the manual's examples, and what holds of all trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.accounting.groups import Group, GroupTree
from pool.accounting.quotas import QuotaSettings, allocate, assign_quotas, bounded

SCALED = QuotaSettings(oversubscribe=False)


def static(name: str, quota: float, *, surplus: bool = False) -> Group:
    return Group(name, quota, is_static=True, accepts_surplus=surplus)


def dynamic(name: str, part: float, *, surplus: bool = False) -> Group:
    return Group(name, part, accepts_surplus=surplus)


def own(tree: GroupTree, total: float, settings: QuotaSettings = SCALED) -> dict[str, float]:
    """What each group may use itself, rounded."""
    return {name: round(quota.own, 4) for name, quota in assign_quotas(tree, total, settings).items()}


PHYSICS = GroupTree(
    [
        static("group_physics", 20),
        static("group_physics.hep", 15, surplus=True),
        static("group_physics.lep", 5, surplus=True),
        static("group_chemistry", 10),
    ]
)


def test_a_submitter_belongs_to_the_deepest_known_group_of_his_path() -> None:
    for submitter, group in (
        ("group_physics.hep.higgs@pool", "group_physics.hep"),
        ("GROUP_Physics.HEP.higgs@pool", "group_physics.hep"),
        ("group_physics.theory.weyl@pool", "group_physics"),
        ("group_physics@pool", "<none>"),
        ("einstein@pool", "<none>"),
        ("group_art.klee@pool", "<none>"),
        ("no-domain", "<none>"),
    ):
        assert PHYSICS.of(submitter).name == group


def test_groups_that_have_no_place_are_left_out_and_named() -> None:
    tree = GroupTree([static("a.b", 1), static("C", 1), static("c", 2), static("<none>", 3)])
    assert [group.name for group in tree] == ["<none>", "C"]
    assert tree.left_out == {
        "a.b": "has no parent: a is not among GROUP_NAMES",
        "c": "is named twice",
        "<none>": "is the name of the group of all others",
    }


def test_static_quotas_are_scaled_down_together_and_never_up() -> None:
    tree = GroupTree([static("group_physics", 20), static("group_chemistry", 10)])
    assert own(tree, 30) == {"<none>": 0, "group_physics": 20, "group_chemistry": 10}
    assert own(tree, 15) == {"<none>": 0, "group_physics": 10, "group_chemistry": 5}
    assert own(tree, 60) == {"<none>": 30, "group_physics": 20, "group_chemistry": 10}
    assert own(tree, 15, QuotaSettings(oversubscribe=True)) == {
        "<none>": 0,
        "group_physics": 20,
        "group_chemistry": 10,
    }


def test_dynamic_quotas_are_parts_of_what_is_above() -> None:
    tree = GroupTree(
        [
            dynamic("group_chemistry", 1 / 3),
            dynamic("group_physics", 2 / 3),
            dynamic("group_physics.hep", 0.75),
            dynamic("group_physics.lep", 0.25),
        ]
    )
    assert own(tree, 30) == {
        "<none>": 0,
        "group_chemistry": 10,
        "group_physics": 0,
        "group_physics.hep": 15,
        "group_physics.lep": 5,
    }
    too_much = GroupTree([dynamic("a", 0.9), dynamic("b", 0.9)])
    assert own(too_much, 30) == {"<none>": 0, "a": 15, "b": 15}


def test_without_surplus_nobody_gets_what_another_leaves() -> None:
    tree = GroupTree([static("a", 20), static("b", 10)])
    quotas = assign_quotas(tree, 30, SCALED)
    assert allocate(tree, quotas, {"a": 0.0, "b": 30.0}) == {"<none>": 0, "a": 0, "b": 10}


def test_with_surplus_what_one_leaves_goes_to_the_other() -> None:
    tree = GroupTree([static("a", 20, surplus=True), static("b", 10, surplus=True)])
    quotas = assign_quotas(tree, 30, SCALED)
    assert allocate(tree, quotas, {"a": 4.0, "b": 90.0}) == {"<none>": 0, "a": 4, "b": 26}


def test_surplus_is_shared_by_quota_and_the_group_that_accepts_none_bounds_its_subtree() -> None:
    """The manual's example: hep and lep may exceed theirs, their sum never physics' twenty."""
    quotas = assign_quotas(PHYSICS, 30, SCALED)
    got = allocate(PHYSICS, quotas, {"group_physics.hep": 50.0, "group_physics.lep": 1.0, "group_chemistry": 0.0})
    assert got["group_physics.hep"] + got["group_physics.lep"] == pytest.approx(20)
    assert got["group_physics.lep"] == 1
    even = GroupTree([static("a", 10, surplus=True), static("b", 20, surplus=True), static("c", 30)])
    assert allocate(even, assign_quotas(even, 60, SCALED), {"a": 99.0, "b": 99.0}) == pytest.approx(
        {"<none>": 0, "a": 20, "b": 40, "c": 0}
    )


def test_a_group_without_a_quota_gets_surplus_after_those_with_one() -> None:
    tree = GroupTree([static("a", 10, surplus=True), static("b", 0, surplus=True), static("c", 20)])
    quotas = assign_quotas(tree, 30, SCALED)
    assert allocate(tree, quotas, {"a": 15.0, "b": 99.0}) == {"<none>": 0, "a": 15, "b": 15, "c": 0}


@pytest.mark.timeout(30)
def test_a_quota_that_is_next_to_nothing_has_its_share_too() -> None:
    tree = GroupTree([static("a", 5e-324, surplus=True)])
    quotas = assign_quotas(tree, 2, SCALED)
    assert allocate(tree, quotas, {"<none>": 1.6, "a": 99.0}) == pytest.approx({"<none>": 1.6, "a": 0.4})


def test_a_subtree_that_is_full_bounds_a_group_in_it() -> None:
    quotas = assign_quotas(PHYSICS, 30, SCALED)
    hep = PHYSICS.named("group_physics.hep")
    assert hep is not None
    target, by = bounded(PHYSICS, quotas, hep, 20, {"group_physics.hep": 3, "group_physics.lep": 12})
    assert (target, by.name) == (8, "group_physics")
    assert bounded(PHYSICS, quotas, hep, 20, {}) == (20, hep)


@given(
    quotas=st.lists(st.tuples(st.floats(0, 50), st.booleans(), st.booleans()), min_size=1, max_size=5),
    wants=st.lists(st.floats(0, 100), min_size=6, max_size=6),
    total=st.floats(1, 200),
)
def test_nobody_is_allocated_more_than_he_wants_and_all_together_not_more_than_there_is(
    quotas: list[tuple[float, bool, bool]], wants: list[float], total: float
) -> None:
    groups = []
    for number, (quota, is_static, surplus) in enumerate(quotas):
        name = f"g{number}" if number < 3 else f"g0.s{number}"
        make = static if is_static else dynamic
        groups.append(make(name, quota if is_static else quota / 50, surplus=surplus))
    tree = GroupTree(groups)
    asked = dict(zip([group.name for group in tree], wants, strict=False))
    quota_of = assign_quotas(tree, total, SCALED)
    got = allocate(tree, quota_of, asked)
    assert sum(got.values()) <= total + 1e-6
    for group in tree:
        assert -1e-9 <= got[group.name] <= asked[group.name] + 1e-6
        if not group.accepts_surplus and not tree.children(group):
            assert got[group.name] <= quota_of[group.name].own + 1e-6
    # Nothing that somebody who accepts surplus wants is left over: the root does, and all beside it that do.
    if all(group.accepts_surplus for group in tree):
        assert sum(got.values()) == pytest.approx(min(total, sum(asked.values())), abs=1e-6)
