"""The users of this schedd: who has jobs here, how many, and who may submit. What administrators set outlives restarts.

The settings are a small file in SPOOL that is replaced as a whole; who has no setting has no entry.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.whole_file import replace_file
from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import is_super_user
from pool.base.errors import ClassAdError, PoolError, SubmitError, UserError
from pool.classad import ClassAd, expr
from pool.jobs.queue.cluster import any_may_have
from pool.jobs.queue.pack import lower_names
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.common import AdBatch
from protocol.messages.schedd import QueryUsers, SetUsers, UserAction
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

FILE: Final = "users.json"
_PROJECT: Final = "project:"
_PROJECT_NAME: Final = lower_names("ProjectName")
_ATTRIBUTE: Final = "="
"""How keys begin: of projects among the users, of attributes among what is known of one."""
_LIMITS: Final = frozenset(("maxjobs", "maxjobsrunning"))
_COUNTS: Final = (
    ("NumIdle", JobStatus.IDLE),
    ("NumRunning", JobStatus.RUNNING),
    ("NumHeld", JobStatus.HELD),
    ("NumCompleted", JobStatus.COMPLETED),
    ("NumRemoved", JobStatus.REMOVED),
)

_FIXED: Final = frozenset(
    ("mytype", "name", "user", "osuser", "enabled", "disablereason", *(name.lower() for name, _ in _COUNTS))
)


class Users:
    """Answers who there is, and refuses the submissions of users who are disabled."""

    def __init__(self, core: Core, spool: Path) -> None:
        self._core = core
        self._path = spool / FILE
        self._known: dict[str, dict[str, str]] = _read(self._path)
        self._changing = trio.Lock()

    def answers(self) -> list[Answer]:
        """Questions about users, and changes of them."""
        return [
            answer(QueryUsers, self.query),
            answer(SetUsers, self.set),
        ]

    def check(self, owner: str) -> None:
        """SubmitError when the owner may not submit."""
        known = self._known.get(owner, {})
        if "disabled" in known:
            why = f": {known['disabled']}" if known["disabled"] else ""
            raise SubmitError(f"User {owner} is disabled{why}")
        if self._core.settings.known_users_only and not self._knows(owner):
            raise SubmitError(f"Unknown User {owner}. Use condor_qusers to add user before submitting jobs.")

    def _knows(self, owner: str) -> bool:
        """Whether somebody has added the user, or the user has jobs here, or manages everybody's."""
        counts: Mapping[JobStatus, int] = self._core.queue.by_owner.get(owner, {})
        return owner in self._known or owner in self._core.settings.super_users or any(counts.values())

    async def query(self, peer: Peer, request: QueryUsers) -> AdBatch:
        """The selected users' ads, by name."""
        wanted = expr(request.constraint) if request.constraint else None
        if request.projects:
            counts = await self._count_projects()
            names = {*counts, *(key.removeprefix(_PROJECT) for key in self._known if key.startswith(_PROJECT))}
            ads = [self._project_ad(name, counts.get(name, Counter())) for name in sorted(names)]
            chosen = [ad for ad in ads if not request.users or ad.eval_str("Name", "") in request.users]
        else:
            people = {*(key for key in self._known if not key.startswith(_PROJECT)), *self._core.queue.by_owner}
            ads = [self._ad(name) for name in sorted(people)]
            chosen = [ad for ad in ads if not request.users or ad.eval_str("OsUser", "") in map(_bare, request.users)]
        return AdBatch(ads=[ad for ad in chosen if wanted is None or wanted.eval(ad) is True])

    def _ad(self, name: str) -> ClassAd:
        known = self._known.get(name, {})
        counts: Mapping[JobStatus, int] = self._core.queue.by_owner.get(name, {})
        user = f"{name}@{self._core.settings.uid_domain}"
        ad = ClassAd({"MyType": "Owner", "User": user, "OsUser": name, "Enabled": "disabled" not in known})
        if known.get("disabled"):
            ad["DisableReason"] = known["disabled"]
        _finish(ad, counts, known)
        return ad

    def _project_ad(self, name: str, counts: Mapping[JobStatus, int]) -> ClassAd:
        ad = ClassAd({"MyType": "Project", "Name": name})
        _finish(ad, counts, self._known.get(_PROJECT + name, {}))
        return ad

    async def _count_projects(self) -> dict[str, Counter[JobStatus]]:
        """How many jobs of each project are in which state."""
        counts: dict[str, Counter[JobStatus]] = {}
        pace = Pace()
        for page in self._core.queue.pages():
            if any_may_have(page, _PROJECT_NAME):
                for job in page:
                    _count(counts, self._core.queue.ad(job), (job.status,))
            else:
                _count(counts, page[0].cluster.ad, [job.status for job in page])
            await pace.breathe()
        return counts

    async def set(self, peer: Peer, request: SetUsers) -> Done:
        """Add, remove, enable, disable or edit users or projects."""
        if not is_super_user(self._core.settings, peer):
            raise UserError(f"{peer.identity} may not change users")
        edits = _edits(request.attributes)
        async with self._changing:  # each change builds on what the one before it has written
            known = self._changed(request, edits)
            await self._core.start.world.threads.run_sync(replace_file, self._path, json.dumps(known))
            self._known = known
        return DONE

    def _changed(self, request: SetUsers, edits: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """What is known of users and projects with the request done."""
        known = {name: dict(said) for name, said in self._known.items()}
        for name in (_PROJECT + name if request.projects else _bare(name) for name in request.users):
            if request.action is UserAction.REMOVE:
                if self._core.queue.by_owner.get(name, {}) and any(self._core.queue.by_owner[name].values()):
                    raise UserError(f"{name} has jobs in the queue")
                known.pop(name, None)
            else:
                said = known.setdefault(name, {})
                if request.action is UserAction.DISABLE:
                    said["disabled"] = request.reason
                elif request.action is UserAction.ENABLE:
                    said.pop("disabled", None)
                elif request.action is UserAction.EDIT:
                    said.update(edits)
        return known


def _count(counts: dict[str, Counter[JobStatus]], ad: ClassAd, states: Sequence[JobStatus]) -> None:
    """Jobs in these states, whose project is in `ad`."""
    if name := ad.eval_str("ProjectName", ""):
        counts.setdefault(name, Counter()).update(states)


def _edits(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes to set, by their keys among the settings; UserError for one that is not for setting."""
    for name, text in attributes.items():
        if name.lower() in _FIXED or not name.isidentifier():
            raise UserError(f"{name} is not an attribute that can be set")
        if name.lower() in _LIMITS:
            raise UserError(f"{name} has no effect here", expected="the knob MAX_JOBS_PER_OWNER or MAX_JOBS_RUNNING")
        try:
            expr(text)
        except ClassAdError as error:
            raise UserError(f"{name} = {text}: {error.message}") from None
    return {_ATTRIBUTE + name: text for name, text in attributes.items()}


def _finish(ad: ClassAd, counts: Mapping[JobStatus, int], known: Mapping[str, str]) -> None:
    """Add the numbers of jobs, and what was set by -edit."""
    for attribute, status in _COUNTS:
        ad[attribute] = counts.get(status, 0)
    for key, text in known.items():
        if key.startswith(_ATTRIBUTE):
            ad[key.removeprefix(_ATTRIBUTE)] = expr(text)


def _bare(name: str) -> str:
    return name.partition("@")[0]


def _read(path: Path) -> dict[str, dict[str, str]]:
    """What was set. A damaged file is not passed over: whoever was disabled could submit again."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # a JSONDecodeError says line and column
        raise _damaged(path, f"cannot be read: {error}") from None
    if not isinstance(known, dict):
        raise _damaged(path, f"has no map but {type(known).__name__} {str(known)[:40]!r}")
    for name, said in known.items():
        if not isinstance(said, dict) or not all(isinstance(text, str) for text in said.values()):
            raise _damaged(path, f"has of {name!r} no map of texts but {str(said)[:40]!r}")
    return known


def _damaged(path: Path, what: str) -> PoolError:
    expected = "JSON as the schedd writes it, users and projects with their settings; without the file nobody has any"
    return PoolError(f"{path} {what}", expected=expected)
