"""Whom a job may be charged to."""

from __future__ import annotations

import pytest

from pool.base.errors import SubmitError, UserError
from pool.classad import UNDEFINED, ClassAd, expr
from pool.jobs.accounting_groups import ChargeRules

RULES = ChargeRules(
    others={"portal": "ann, bob", "any": "*"}.get,
    super_users=frozenset({"root"}),
    is_account=frozenset({"john.doe"}).__contains__,
)


def charged(owner: str, **said: object) -> dict[str, object]:
    ad = ClassAd(said)
    RULES.settle(ad, owner=owner, user=f"{owner}@here")
    return dict(ad.items())


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("ann", "ann"),
        ("ann", "physics.ann"),
        ("ann", "nice-user.ann"),
        ("ann", "physics.higgs.ann"),
        ("portal", "bob"),
        ("portal", "physics.bob"),
        ("any", "x.bob"),
        ("root", "bob"),
        ("john.doe", "john.doe"),
        ("john.doe", "physics.john.doe"),
    ],
)
def test_these_may_be_charged(owner: str, name: str) -> None:
    assert charged(owner, AccountingGroup=name) == {"AccountingGroup": name}


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("ann", "bob"),
        ("ann", "physics.bob"),
        ("ann", "joann"),
        ("ann", "ann.bob"),
        ("ann", "Ann"),
        ("portal", "eve"),
        ("doe", "john.doe"),
        ("doe", "physics.john.doe"),
        ("ann", "physics .ann"),
        ("ann", "bob@here\n.ann"),
        ("ann", "x@y.ann"),
    ],
)
def test_these_may_not(owner: str, name: str) -> None:
    with pytest.raises(SubmitError):
        charged(owner, AccountingGroup=name)


def test_what_is_said_becomes_plain_and_agrees_with_itself() -> None:
    said = charged("ann", AccountingGroup=expr('strcat("g.", "ann")'), AcctGroup="h", AcctGroupUser="bob")
    assert said == {"AccountingGroup": "g.ann", "AcctGroup": "g", "AcctGroupUser": "ann"}
    assert charged("ann", AcctGroup="h", AcctGroupUser="bob") == {}
    assert charged("ann", AccountingGroup=expr("NoSuch")) == {}
    with pytest.raises(SubmitError, match="ann may not charge bob"):
        charged("ann", AccountingGroup=expr("Other"), Other="bob")


def test_edits_are_texts_for_the_users_own_name() -> None:
    def edited(text: str, **more: bool) -> object:
        values = RULES.edited({"accountinggroup": expr(text), "A": 1}, owner="ann", user="ann@here", **more)
        return values["accountinggroup"]

    assert edited('strcat("g", ".ann")') == "g.ann"
    assert edited("Foo") is UNDEFINED
    assert edited('"bob"', anybody=True) == "bob"
    for text in ('"bob"', "7", 'ifThenElse(true, "bob", "ann")'):
        with pytest.raises(UserError):
            edited(text)
