"""Attributes that nobody may change in a job, only a super user, or only the schedd: IMMUTABLE_JOB_ATTRS and kin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pool.base.errors import SubmitError, UserError
from pool.classad import ClassAd
from pool.jobs.accounting_groups import ACCOUNTING
from pool.jobs.vocabulary.own_attributes import (
    NO_JOBS,
    NOBODYS_TO_SET,
    RUNS_AND_FILES,
    SCHEDDS,
    contradicted,
    has_nul,
    is_no_starters,
    is_odd,
    strip,
)

if TYPE_CHECKING:
    from pool.config import Config


@dataclass(frozen=True)
class EditRules:
    """The lists, in lower case. What is the schedd's own is immutable whatever the configuration says."""

    immutable: frozenset[str] = SCHEDDS
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

    def check_words(self, names: Iterable[str], *, opens_files: bool) -> None:
        """The same of what a running job says through its starter.

        Unless it may open its owner's files anyway, it does not decide which files come and go, nor what runs.
        """
        self.check(names, super_user=False)
        for name in names:
            if not opens_files and name.lower() in RUNS_AND_FILES:
                raise UserError(f'Update of attribute "{name}" takes a job that may open files (want_io_proxy).')

    def _kind(self, name: str, super_user: bool) -> str:
        if name in self.immutable:
            return "immutable"
        if name in self.secure:
            return "secure"
        return "protected" if name in self.protected and not super_user else ""

    @property
    def no_transforms(self) -> frozenset[str]:
        """What no transform changes."""
        return NOBODYS_TO_SET | self.secure

    @cached_property
    def not_users(self) -> frozenset[str]:
        """What no job changes in itself as it goes along: by its own transforms, or by what its starter reports."""
        return self.immutable | self.secure | self.protected | frozenset(name.lower() for name in ACCOUNTING)

    def reported(self, ad: ClassAd) -> ClassAd:
        """What a starter reports of its job, less what is not a starter's to say."""
        not_users = self.not_users
        refused = [
            name
            for name, value in ad.attrs.items()
            if name in not_users or is_no_starters(name) or has_nul(value) or is_odd(value)
        ]
        if not refused:
            return ad
        told = ad.copy()
        strip(told, refused)
        return told

    def concern(self, names: Iterable[str]) -> bool:
        """Whether `submitted` would take one of these out of a job."""
        keys = {name.lower() for name in names}
        return not (NO_JOBS.isdisjoint(keys) and self.secure.isdisjoint(keys))

    def submitted(self, ad: ClassAd, known: ClassAd, names: frozenset[str] = NO_JOBS) -> list[str]:
        """Take these out of what a submitter says, and what is secure; the names of what he should hear is ignored.

        `known` is the cluster's ad as the schedd makes it. SubmitError where attempts are not to be ignored.
        """
        own = {name for name in names | self.secure if name in ad.attrs}
        if not own:
            return []
        if not self.ignores_secure and (tried := own & self.secure):
            raise SubmitError(f"Attempt to edit secure attribute {min(tried)}. Failing!")
        ignored = contradicted(ad, known, sorted(own))
        strip(ad, own)
        return ignored


def edit_rules(config: Config) -> EditRules:
    """The lists of the configuration, HTCondor's own and the administrator's."""

    def listed(kind: str) -> frozenset[str]:
        names = (*config.list(f"SYSTEM_{kind}_JOB_ATTRS"), *config.list(f"{kind}_JOB_ATTRS"))
        return frozenset(name.lower() for name in names)

    return EditRules(
        immutable=SCHEDDS | listed("IMMUTABLE"),
        protected=listed("PROTECTED"),
        secure=listed("SECURE"),
        ignores_secure=config.bool("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS"),
    )
