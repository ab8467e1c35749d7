"""As whom a job runs, and how this process acts as that account for a moment."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from pool.base.errors import PoolError
from pool.base.ids import is_number
from pool.classad import ClassAd

NOBODY_ID: Final = 65534


class NoAccount(PoolError):
    """This machine has no account to run a job as."""


class NotInGroup(PoolError):
    """The account cannot have the group that the job asks for, here or on any machine like this."""


@dataclass(frozen=True)
class Account:
    """A local account. `is_owner`: it is the job's owner, who reaches his own files as they are."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str | None
    is_owner: bool = True

    @property
    def switches(self) -> bool:
        """Whether this process must change its identity to act as this account."""
        return self.uid != os.getuid()


def own_account() -> Account:
    """The account of this process, which may have no entry in the account database."""
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(str(uid), uid, os.getgid(), tuple(os.getgroups()), None)
    return Account(entry.pw_name, uid, os.getgid(), tuple(os.getgroups()), entry.pw_dir)


@cache
def named_account(name: str, *, is_owner: bool = True) -> Account:
    """An account of this machine; NoAccount when there is none, or when it is the superuser.

    A process looks an account up once: a claim's jobs are all of one owner.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise NoAccount(f"there is no account {name!r} on this machine") from None
    if entry.pw_uid == 0:
        raise NoAccount("jobs do not run as root")
    # Never the group of root, whoever is listed in it.
    groups = tuple(sorted(set(os.getgrouplist(name, entry.pw_gid)) - {0}))
    return Account(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, is_owner)


def account_for(
    job: ClassAd, *, uid_domain: str, fallback: str, run_as_owner: bool = True, soft_uid_domain: bool = False
) -> Account:
    """As whom to run `job`. As root: its owner where the domains agree and the account exists, else `fallback`.

    A user without a domain is one of another domain. Without root's rights everything runs as this process's own
    account.
    """
    if os.geteuid() != 0:
        return own_account()
    owner = job.eval_str("OsUser") or job.eval_str("Owner") or ""
    domain = (job.eval_str("User") or "").partition("@")[2]
    if run_as_owner and owner and domain and domain.lower() == uid_domain.lower() and job.eval_bool("RunAsOwner", True):
        try:
            return named_account(owner)
        except NoAccount:
            if soft_uid_domain and is_number(owner) and int(owner) > 0:
                return Account(owner, int(owner), int(owner), (int(owner),), None)
    return fallback_account(fallback)


def fallback_account(name: str) -> Account:
    """The account of jobs whose owner has none here; it has no right to anything."""
    try:
        return named_account(name, is_owner=False)
    except NoAccount:
        if name != "nobody":
            raise
        return Account("nobody", NOBODY_ID, NOBODY_ID, (NOBODY_ID,), None, is_owner=False)


def with_primary_group(account: Account, name: str) -> Account:
    """The account with another of its groups as the first one; NotInGroup when it has no such group to take."""
    try:
        gid = grp.getgrnam(name).gr_gid
    except KeyError:
        raise NotInGroup(f"primary_unix_group: there is no group {name} on this machine") from None
    if gid != account.gid and (gid not in account.groups or gid == 0):
        raise NotInGroup(f"primary_unix_group: {account.name} is not a member of the group {name}")
    if gid != account.gid and not account.switches:
        raise NotInGroup(f"primary_unix_group: without root's rights {account.name} cannot take the group {name}")
    return replace(account, gid=gid)


@contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Have the account's rights on files inside the `with`, in which nothing may be awaited; this process is root's."""
    if not account.switches or os.geteuid() != 0:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def become(account: Account) -> None:
    """Be that account for good, with no way back."""
    if account.switches:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
