"""A schedd and a collector that answer from ads in files: what the tools need to show a table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from minipool.cli.entry.main import dispatch
from minipool.cli.entry.names import TOOLS
from pool.classad import ClassAd, expr, parse_longs
from pool.config import load_config
from protocol.messages.common import AdBatch, AdReply, GetAd
from protocol.messages.schedd import (
    ActOnJobs,
    ActResults,
    CountJobs,
    EditJobs,
    JobCounts,
    OwnerCount,
    QueryHistory,
    QueryJobs,
    Selection,
)
from protocol.wire.ad_table import AdTable, pack_chosen, unpack_table
from protocol.wire.message import Message

CASES = Path(__file__).parents[2] / "cases" / "cli"


class FakePeer:
    """One connection; `answers` are replies by type of request, or functions of the request."""

    address = "/fake.sock"

    def __init__(self, jobs: Sequence[ClassAd], answers: Mapping[type[Message], Any]) -> None:
        self.jobs, self.answers = jobs, answers
        self.asked: list[Message] = []

    def __enter__(self) -> FakePeer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, request: Message, **_: object) -> Any:
        self.asked.append(request)
        if isinstance(request, CountJobs):
            return JobCounts(counts=[counted(ad) for ad in self.jobs])
        answer = self.answers[type(request)]
        return answer(request) if callable(answer) else answer

    def stream(self, request: Message) -> Iterator[AdBatch]:
        self.asked.append(request)
        assert isinstance(request, QueryJobs | QueryHistory)
        found = [ad for ad in self.jobs if selected(request.select, ad)][: request.limit]
        yield AdBatch(ads=[ad.project(request.projection) if request.projection else ad.copy() for ad in found])


def counted(ad: ClassAd) -> OwnerCount:
    """One job, counted."""
    return OwnerCount(
        owner=ad.eval_str("Owner", ""),
        status=ad.eval_int("JobStatus", 0),
        count=1,
        scheduler=ad.eval_int("JobUniverse", 5) == 7,
    )


def selected(select: Selection, ad: ClassAd) -> bool:
    """Whether a job is meant."""
    cluster, proc = ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)
    named = select.all or not (select.ids or select.users)
    named = (
        named or str(cluster) in select.ids or f"{cluster}.{proc}" in select.ids or ad.eval_str("Owner") in select.users
    )
    return named and (select.constraint is None or expr(select.constraint).eval(ad) is True)


class FakeSession:
    """Stands for `minipool.client.session.Session`."""

    uid_domain = "pool.test"
    pool = None

    def __init__(self, peer: FakePeer, ads: Sequence[ClassAd] = (), user: str = "alice") -> None:
        self.peer, self.ads, self._user = peer, ads, user
        self.config = load_config([], environ={})

    def user(self) -> str:
        return self._user

    def me(self) -> str:
        return f"{self._user}@pool.test"

    def qualified(self, name: str) -> str:
        return name if "." in name or "@" in name else f"{name}.pool.test"

    def sinful(self, daemon: str) -> str:
        return ""

    def daemon(self, kind: str, **_: object) -> FakePeer:
        return self.peer

    def collector_address(self) -> None:
        return None

    def query(
        self,
        ad_type: str,
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        **_: object,
    ) -> list[ClassAd]:
        wanted = expr(constraint or "true")
        found = [ad for ad in self.ads if ad_type in ("Any", ad.eval_str("MyType")) and wanted.eval(ad) is True]
        return [ad.project(projection) if projection else ad.copy() for ad in found[:limit]]

    def query_batches(self, ad_type: str, **how: Any) -> Iterator[AdTable | list[ClassAd]]:
        """A few ads a table, so that there are several."""
        found = FakeSession.query(self, ad_type, **{**how, "projection": ()})
        for start in range(0, len(found), 4):
            yield unpack_table(pack_chosen(found[start : start + 4], how["projection"]))


SCHEDD = ClassAd({"Name": "ap1.pool.test", "MyAddress": "<127.0.0.1:9618?alias=ap1.pool.test&sock=schedd>"})


def read_ads(name: str) -> list[ClassAd]:
    """The ads of a file among the cases."""
    with open(CASES / name) as file:
        return list(parse_longs(file))


def a_peer(jobs: Sequence[ClassAd] = (), **answers: Any) -> FakePeer:
    """A schedd; `act` and `edit` are what it answers to actions and edits."""
    known: dict[type[Message], Any] = {
        GetAd: AdReply(ad=SCHEDD),
        ActOnJobs: answers.get("act", ActResults(results=[])),
        EditJobs: answers.get("edit", ActResults(results=[])),
    }
    return FakePeer(jobs, known)


def run_tool(
    monkeypatch: pytest.MonkeyPatch, verb: str, argv: Sequence[str], session: FakeSession
) -> tuple[int, str, str]:
    """Run a tool in this process against a fake session: exit status, standard output, standard error."""
    for name in ("q", "status", "history", "rm", "prio", "qedit"):
        module = import_module(f"minipool.cli.{TOOLS[name][0]}")
        monkeypatch.setattr(module, "open_session", lambda _, **__: session)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = dispatch(verb, argv)
    return status, out.getvalue(), err.getvalue()
