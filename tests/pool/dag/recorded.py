"""Graphs that HTCondor's own condor_dagman ran, and what came of them: tests/cases/dag/recorded.cases.

A case begins as those of `cases.py` do. What stands before its first file says which tests of HTCondor's it holds
(`from`), what condor_submit_dag was given (`options`, `dags`), what that means here (`settings`), whether what ran
beside one another may run in any order (`order: any`), which nodes cannot be submitted (`broken`), why real daemons
run it (`live`), and what HTCondor does that is not expected here (`differs`). Each node's job and each script is the program `act` beside
the cases, which notes that it runs and ends as `codes` says: `JOB A 1 0` first fails, then succeeds. Behind `--->` is
what condor_dagman returned, what ran, and the rescue and save files that it left.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.pool.dag.cases import CASES


class Recorded(NamedTuple):
    """One graph, and what came of it."""

    name: str
    head: dict[str, str]
    files: dict[str, str]
    exit_code: int
    ran: list[str]
    left: dict[str, str]
    """The files that it left, by name, without the line that says when."""

    @property
    def in_order(self) -> bool:
        return self.head.get("order") != "any"

    @property
    def dags(self) -> list[str]:
        return self.head.get("dags", "x.dag").split()

    def codes(self, kind: str) -> dict[str, list[str]]:
        """What each run of this kind ends with, by node."""
        words = [line.split() for line in self.files.get("codes", "").splitlines()]
        return {node: codes for this, node, *codes in words if this == kind}


def recorded() -> list[Recorded]:
    """All of them."""
    return [_case(block) for block in (CASES / "recorded.cases").read_text().split("=== ")[1:]]


def _case(block: str) -> Recorded:
    name, _, body = block.partition("\n")
    said, _, outcome = body.partition("--->\n")
    head, *parts = said.split("--- ")
    files = {file: text for file, _, text in (part.partition("\n") for part in parts)}
    heading = dict(line.split(": ", 1) for line in head.splitlines())
    ran: list[str] = []
    left: dict[str, str] = {}
    code, file = 0, ""
    for line in outcome.splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "exit":
                code = int(rest)
            case "ran":
                ran.append(rest)
            case "file":
                file = rest
                left[file] = ""
            case "|":
                left[file] += f"{rest}\n"
    return Recorded(name, heading, files, code, ran, left)


def without_time(text: str) -> str:
    """A rescue file without the line that says when it was written."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if not line.startswith("# Created"))
