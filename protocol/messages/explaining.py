"""What tools ask the negotiator about jobs that wait."""

from __future__ import annotations

from pool.classad import ClassAd
from pool.explaining.analysis import Analysis
from protocol.wire.message import Record, Request


class Explained(Record):
    """How the job compares with the slots that the negotiator knows, and what its own matching makes of that."""

    analysis: Analysis
    reasons: list[str]
    """Sentences: which bound holds it back, whose jobs need not make way for it, or that it only takes time."""


class ExplainJob(Request[Explained], tag="negotiator.explain_job"):
    """Why does this job of the submitter get no slot?"""

    ad: ClassAd
    submitter: str
    autocluster: int = -1
    schedd: str = ""
    """Whose number the autocluster is."""
