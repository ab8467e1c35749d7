"""What is left of a description whose jobs are made later, one after another: its lines, its items, its surroundings.

A recipe is plain values and has no expansion done that could differ from job to job, so a schedd can keep it, and come
back to any job of it after a restart. What depends on the submitter's files and directories was decided at submit, for
the cluster ad; the jobs made later inherit it, and `made_later` leaves it out of their own ads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pool.base.errors import SubmitError
from pool.base.words import SPACE
from pool.classad import ClassAd
from pool.macros.expand import Chance, references
from pool.macros.macro_set import MacroSet, Source
from pool.submit.job import SubmitSurroundings
from pool.submit.plan import SubmitPlan
from pool.submit.queue_statement import Queue, TableOptions
from pool.submit.reader import SubmitBatch
from pool.submit.rows import Rows
from pool.submit.scope import Scope
from pool.submit.world import SubmitWorld

if TYPE_CHECKING:
    from pool.config import Config

SIZES: Final = ("DiskUsage", "ExecutableSize", "ImageSize", "TransferInputSizeMB")
"""Attributes that only a look at the submitter's files tells: jobs made later have the cluster's."""

LINES_MAX: Final = 1000
"""How many commands and macros the description of jobs that are made later may have."""
EXPANDED_MAX: Final = 10_000_000
"""How much may be expanded for one of them (`Expander.left`): some 50 ms."""

_TABLE = ("header", "skip", "separator", "trim", "white_space")


def recipe(plan: SubmitPlan) -> str:
    """The plan as a text that `SubmitPlan`s can be made of again."""
    if len(plan.batches) > 1:
        line = plan.batches[1][0].line
        raise SubmitError(f"jobs that are made later come from one queue statement; there is another on line {line}")
    ((batch, rows),) = plan.batches
    kept: dict[str, Any] = {
        "lines": [(macro.name, macro.text) for macro in batch.macros],
        "variables": rows.variables,
        "items": list(rows.items),
        "count": rows.count,
        "cwd": plan.around.cwd,
        "user": plan.around.user,
        "now": plan.around.now,
        "file": plan.scope.defaults["submit_file"],
        "env": _environment(plan, batch),
    }
    if rows.places is not None:
        kept["places"] = list(rows.places)
    if rows.table is not None:
        kept["table"] = {name: getattr(rows.table, name) for name in _TABLE}
    return json.dumps(kept, separators=(",", ":"))


def _environment(plan: SubmitPlan, batch: SubmitBatch) -> dict[str, str]:
    """The part of the submitter's environment that the jobs may still ask for."""
    environ = plan.around.environ
    wanted: set[str] = set()
    for macro in batch.macros:
        if macro.name.lower() in ("getenv", "get_env"):
            return dict(environ)
        for one in references(macro.text) if "$" in macro.text else ():
            if one.function == "ENV":
                wanted.add(one.name.partition(":")[0].strip(SPACE))
    return {name: environ[name] for name in sorted(wanted) if name in environ}


def plan_of(text: str, *, config: Config, cluster: int, chance: Chance) -> SubmitPlan:
    """The plan that a recipe is of, for a cluster that has its id. It reads no file and runs no command."""
    kept = json.loads(text)
    if len(kept["lines"]) > LINES_MAX:
        raise SubmitError(
            f"the description of jobs that are made later has {len(kept['lines'])} lines",
            expected=f"{LINES_MAX} or fewer",
        )
    world = SubmitWorld(
        glob=lambda _: [],
        read_file=_nothing_to_read,
        size=lambda _: 1,
        is_dir=lambda _: True,
        has_crlf=lambda _: False,
    )
    # Unexpanded, each with the file's name: an error in a job that is made tomorrow still says where it was written.
    macros = MacroSet()
    for name, value in kept["lines"]:
        macros.put(name, value, Source(kept["file"] or "<stdin>"))
    scope = Scope(macros, config, environ=kept["env"], cwd=kept["cwd"], now=kept["now"], chance=chance)
    scope.defaults["submit_file"] = kept["file"]
    around = SubmitSurroundings(
        config=config,
        world=world,
        cwd=kept["cwd"],
        environ=kept["env"],
        now=kept["now"],
        user=kept["user"],
        warn=lambda _: None,
        skip_checks=True,
    )
    queue = Queue()
    queue.variables = kept["variables"]
    if "table" in kept:
        queue.table = TableOptions()
        for name, value in kept["table"].items():
            setattr(queue.table, name, value)
    rows = Rows(queue, kept["items"], kept["count"], kept.get("places"))
    return SubmitPlan(scope, around, [(SubmitBatch(queue, 0, macros), rows)], cluster, [])


def made_later(plan: SubmitPlan, start: int) -> Iterator[ClassAd]:
    """The own attributes of each job from `start` on, without those that only the submitter's files tell."""
    plan.scope.expander.left = EXPANDED_MAX
    for ad in plan.procs(start):
        plan.scope.expander.left = EXPANDED_MAX
        ad.parent = None
        for name in SIZES:
            if name in ad:
                del ad[name]
        yield ad


def _nothing_to_read(path: str) -> str:
    raise OSError(f"{path} cannot be read here")
