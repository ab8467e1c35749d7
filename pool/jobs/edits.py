"""Attributes that nobody may change in a job, only a super user, or only the schedd: IMMUTABLE_JOB_ATTRS and kin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pool.classad import ClassAd
from pool.errors import SubmitError, UserError

if TYPE_CHECKING:
    from pool.config import Config

SCHEDDS_OWN: Final = frozenset(
    {"clusterid", "procid", "owner", "user", "mytype", "targettype", "jobstatus", "qdate", "globaljobid"}
)
"""What would break the queue itself, whatever the configuration says."""


@dataclass(frozen=True)
class EditRules:
    """The lists, in lower case."""

    immutable: frozenset[str] = SCHEDDS_OWN
    protected: frozenset[str] = frozenset()
    secure: frozenset[str] = frozenset()
    ignores_secure: bool = True
    """Whether a submission that sets what only the schedd sets goes on without it."""

    def check(self, names: Iterable[str], *, super_user: bool) -> None:
        """UserError when one of these may not be changed in a job that is in the queue."""
        for name in names:
            kind = self._kind(name.lower(), super_user)
            if kind:
                raise UserError(f'Update of {kind} attribute "{name}" is not allowed.')

    def _kind(self, name: str, super_user: bool) -> str:
        if name in self.immutable:
            return "immutable"
        if name in self.secure:
            return "secure"
        return "protected" if name in self.protected and not super_user else ""

    def has_secure(self, names: Iterable[str]) -> bool:
        """Whether one of these is the schedd's to set."""
        return not self.secure.isdisjoint(name.lower() for name in names)

    def submitted(self, ad: ClassAd) -> None:
        """Take out of a new job what only the schedd sets; SubmitError where that is no longer ignored."""
        for name in self.secure:
            if name not in ad:
                continue
            if not self.ignores_secure:
                raise SubmitError(f"Attempt to edit secure attribute {name}. Failing!")
            del ad[name]


def edit_rules(config: Config) -> EditRules:
    """The lists of the configuration, HTCondor's own and the administrator's."""

    def listed(kind: str) -> frozenset[str]:
        names = (*config.list(f"SYSTEM_{kind}_JOB_ATTRS"), *config.list(f"{kind}_JOB_ATTRS"))
        return frozenset(name.lower() for name in names)

    return EditRules(
        immutable=SCHEDDS_OWN | listed("IMMUTABLE"),
        protected=listed("PROTECTED"),
        secure=listed("SECURE"),
        ignores_secure=config.bool("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS"),
    )
