"""Whom a job's use may be charged to: its user, alone or in a group, and others only where a table says so.

AccountingGroup is the submitter's name that the negotiator charges: `user`, or `group.user`. It is a text by the time a
job is in the queue: an expression might charge somebody else tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pool.base.errors import SubmitError, UserError
from pool.base.words import split_list
from pool.classad import UNDEFINED, ClassAd, Expr, Member, Undefined

GROUP: Final = "AccountingGroup"
ACCOUNTING: Final = (GROUP, "AcctGroup", "AcctGroupUser")
_KEYS: Final = tuple(name.lower() for name in ACCOUNTING)
ANYBODY: Final = "*"


@dataclass(frozen=True)
class ChargeRules:
    """Who may charge whom. `others` are the names that the table has for a user, separated by commas."""

    others: Callable[[str], str | None] = lambda user: None
    super_users: frozenset[str] = frozenset()
    is_account: Callable[[str], bool] = lambda name: False

    def settle(self, ad: ClassAd, *, owner: str, user: str) -> None:
        """Make what an ad itself says of this plain texts that agree; SubmitError when the user may not say it."""
        own = [key for key in _KEYS if key in ad.attrs]
        if not own:
            return
        name = ad.eval(GROUP)
        if not isinstance(name, str) or not name:
            for key in own:
                del ad[key]
            return
        self.check(name, owner=owner, user=user)
        charged = self._user_in(name, owner, ad.eval("AcctGroupUser"))
        group = name[: -len(charged)].rstrip(".")
        ad[GROUP] = name
        if "AcctGroupUser" in ad:
            ad["AcctGroupUser"] = charged
        if "AcctGroup" in ad:
            ad["AcctGroup"] = group or UNDEFINED

    def edited(
        self, values: Mapping[str, Member], *, owner: str, user: str, anybody: bool = False
    ) -> dict[str, Member]:
        """What a user sets in jobs of his, with plain texts here; UserError when he may not. `anybody`: he may."""
        settled = dict(values)
        for attribute, value in values.items():
            if attribute.lower() not in (_KEYS[0], _KEYS[2]):
                continue
            name = value.eval(ClassAd()) if isinstance(value, Expr) else value
            if isinstance(name, Undefined):
                settled[attribute] = UNDEFINED
                continue
            if not isinstance(name, str):
                raise UserError(f"{attribute} must be a text or undefined")
            if not anybody:
                self.check(name, owner=owner, user=user)
            settled[attribute] = name
        return settled

    def check(self, name: str, *, owner: str, user: str) -> None:
        """SubmitError unless the jobs of `owner` may be charged to this submitter."""
        if not name.isprintable() or any(char.isspace() or char == "@" for char in name):
            raise SubmitError(f"Invalid accounting_group: {name!r}", expected="GROUP.USER without spaces and @")
        if self._is_own(name, owner) or owner in self.super_users or user in self.super_users:
            return
        listed = split_list(self.others(owner))
        if any(other in (ANYBODY, name) or name.endswith(f".{other}") for other in listed):
            return
        raise SubmitError(
            f"{owner} may not charge {name}: jobs are charged to {owner}, alone or in a group, "
            "unless the map ACCOUNTING_GROUP_USER_MAP names other users",
            expected=f"accounting_group_user = {owner}",
        )

    def _is_own(self, name: str, owner: str) -> bool:
        """Whether it is the user, or the user in a group.

        Where there is an account john.doe, that is not doe in the group john.
        """
        if name == owner:
            return True
        return name.endswith(f".{owner}") and not any(map(self.is_account, _longer(name, owner)))

    @staticmethod
    def _user_in(name: str, owner: str, said: object) -> str:
        """The user whom the name ends with."""
        # The owner first: `group.john.doe` is split after the group only if somebody says where the user begins.
        for one in (owner, said):
            if isinstance(one, str) and one and (name == one or name.endswith(f".{one}")):
                return one
        return name.rpartition(".")[2] or name


def _longer(name: str, owner: str) -> Iterable[str]:
    """The ends of a name that begin after a dot, or at its start, and are more than the owner."""
    # Of `a.b.doe` and the owner doe: `b.doe` and `a.b.doe` might be accounts, whose user is then not doe.
    parts = name[: -len(owner) - 1].split(".")
    for at in range(len(parts)):
        yield ".".join([*parts[at:], owner])
