"""What a command line of condor_q asks for: which jobs, in which view, and which attributes that takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.options import Parsed, UsageError
from minipool.cli.output.ad_form import AdForm
from minipool.cli.output.print_format import PrintFormat
from minipool.cli.queue_tools import q_batch, q_totals, q_views
from minipool.client.job_ids import split
from pool.base.errors import UserError
from pool.base.ids import is_number

if TYPE_CHECKING:
    from pool.config import Config
    from protocol.messages.schedd import Selection

_ANALYSES = ("better-analyze", "reverse-analyze")
_EXCLUSIVE = ("run", "hold", "hold-codes", "idle")


class Asked:
    """What the command line asks for."""

    def __init__(self, parsed: Parsed, config: Config) -> None:
        self.parsed = parsed
        self._shows_batches = config.bool("CONDOR_Q_DASH_BATCH_IS_DEFAULT")
        self.me = ""
        self._refuse_contradictions()
        self.ids, users = split(parsed.words)
        self.users = users + parsed.values("submitter")
        self.output = AdForm(parsed)
        self.clock = q_views.Clock(cpu=parsed.has("cputime"), current=not parsed.has("cumulative-time"))
        self.format = self.output.print_format(q_views.functions(self.clock, dag=parsed.has("dag")))
        self.file = parsed.value("jobads")
        self.userlog = parsed.value("userlog")
        self.analyze = next((text for key in _ANALYSES if (text := parsed.qualifier(key)) is not None), None)
        self.view = self._view()
        self.table = self._table()
        constraints = [f"({text})" for text in parsed.values("constraint")]
        # Where only some jobs of a cluster are asked for, the missing ones are not done.
        self.partial = bool(constraints) or any("." in job for job in self.ids)
        self.constraint = " && ".join(constraints + [f"({text})" for text in self._own_constraints()]) or None
        limit = parsed.value("limit")
        self.limit = parsed.number("limit", 0) if limit is not None else None
        self.only_totals = parsed.has("totals")
        self.always_all = bool(
            self.ids
            or self.users
            or parsed.has("allusers")
            or parsed.has("global")
            or parsed.has("schedd-constraint")
            # Root sees everybody's jobs, as with HTCondor's CONDOR_Q_ONLY_MY_JOBS.
            or os.geteuid() == 0
            or not config.bool("CONDOR_Q_ONLY_MY_JOBS")
        )

    @property
    def from_file(self) -> bool:
        """Whether the jobs come from a file, so that no queue is asked."""
        return self.file is not None or self.userlog is not None

    def _refuse_contradictions(self) -> None:
        parsed = self.parsed
        if sum(parsed.has(key) for key in _EXCLUSIVE) > 1:
            raise UsageError("-run and -hold/held or -idle are incompatible")
        if parsed.has("stream-results") and (parsed.has("dag") or parsed.has("batch")):
            raise UsageError("-stream-results and -dag or -batch are incompatible")
        if parsed.has("currentrun") and parsed.has("cumulative-time"):
            raise UserError("Error: -currentrun can't be used with -cumulative-time")
        if parsed.has("submitter") and (parsed.has("name") or parsed.has("address")):
            raise UserError("Cannot query both schedd's and submitters")
        if parsed.has("batch") and (parsed.has("autoformat") or parsed.has("format")):
            raise UserError("Error: -batch conflicts with -format and -af")
        if parsed.has("batch") and parsed.has("unmatchable"):
            raise UserError("Error: -batch conflicts with -unmatchable")
        if parsed.has("batch") and parsed.has("autocluster"):
            raise UserError("Error: -batch conflicts with -autocluster")
        direct = parsed.value("direct")
        if direct is not None and direct.lower() != "schedd":
            raise UserError("Error: -direct may only take 'schedd' as an option.")

    def _kind(self) -> str:
        """Which jobs are asked for, if not simply all."""
        for key in ("hold-codes", "hold", "run", "idle", "io", "grid", "factory", "jobset", "autocluster"):
            if self.parsed.has(key):
                return "grid:ec2" if key == "grid" and self.parsed.qualifier(key) == "ec2" else key
        return ""

    def _view(self) -> str:
        has, kind = self.parsed.has, self._kind()
        # Of a graph's jobs these are the usual columns, as in HTCondor's.
        if kind and not (has("dag") and kind in ("run", "idle")):
            return kind
        if kind:
            return "dag"
        if has("nobatch") or has("unmatchable") or has("stream-results") or self.format is not None:
            return "dag" if has("dag") else "nobatch"
        return "batch" if has("batch") or self._shows_batches else "nobatch"

    def _table(self) -> PrintFormat | None:
        """The columns to print; None for batches, whole ads and -format."""
        names = self.parsed.values("aaf")
        if names and self.view == "batch" and self.output.is_table:
            raise UserError(
                "Error: -aaf cannot be used with -batch mode output (the default), did you intend to use -af ?"
            )
        if names and not self.output.is_table:
            raise UserError("Error: output formatting options conflict with -aaf options")
        if not self.output.is_table or self.view == "batch":
            return None
        table = self.format or q_views.view(self.view, self.clock)
        self.output.append(table, q_views.functions(self.clock))
        return table

    def _own_constraints(self) -> list[str]:
        """What the view and the print format narrow the jobs to."""
        found = []
        if self.analyze is None:
            found.append(q_views.CONSTRAINTS.get(self._kind(), ""))
        for key in ("hold", "hold-codes"):
            found.append(_hold_codes(self.parsed.qualifier(key) or ""))
        if self.format is not None:
            found.append(self.format.where)
        return [text for text in found if text]

    @property
    def needs_totals(self) -> bool:
        """Whether the queue has to be counted as well."""
        if self.only_totals:
            return True
        if not self.output.is_table:
            return False
        return self.table.summarized if self.table is not None else True

    @property
    def counts_suffice(self) -> bool:
        """Whether the totals say all that was asked for, so that no job need be looked at."""
        narrowed = self.ids or self.users or self.constraint or self.from_file or self.limit is not None
        return self.only_totals and not narrowed

    @property
    def by_autocluster(self) -> bool:
        """Whether there is one row for all jobs that look alike, rather than one for each."""
        return self.view == "autocluster" or (self.format is not None and self.format.from_set == "AUTOCLUSTER")

    def selection(self) -> Selection:
        """Which jobs the schedd is asked for; only one's own unless others are named."""
        from protocol.messages.schedd import Selection

        users = self.users or ([] if self.always_all else [self.me])
        return Selection(ids=self.ids, users=users, constraint=self.constraint, all=not (self.ids or users))

    def projection(self) -> list[str]:
        """The attributes that the output needs; empty for all."""
        if self.only_totals:
            return [*q_totals.NEEDS]
        # To match a job takes its whole ad.
        if self.parsed.has("unmatchable") and not self.output.whole:
            return []
        keys = ("ClusterId", "ProcId", "JobStatus", "JobUniverse", "AutoClusterId", "ServerTime", "Owner")
        shown = q_batch.NEEDS if self.table is None else [*self.table.names(), *keys]
        return self.output.projection(shown, ("ClusterId", "ProcId", "ServerTime"))


def _hold_codes(text: str) -> str:
    """`12/2,26` as a constraint."""
    found = []
    for word in text.split(","):
        code, _, sub = word.strip().partition("/")
        if is_number(code.lstrip("-")):
            both = f"HoldReasonCode == {code}"
            found.append(f"({both} && HoldReasonSubCode == {sub})" if is_number(sub) else f"({both})")
        elif word.strip():
            sys.stderr.write(f'Warning "{word}" is not a hold code and/or subcode. ignoring\n')
    return " || ".join(found)


def without_projection(names: Sequence[str]) -> bool:
    """Whether whole ads are asked for, which know the time at which they were."""
    return not names or "ServerTime" in names
