"""What the real ClassAd library says, and whether that is what is said here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pool.base.errors import ClassAdError
from pool.classad import ERROR, AbsTime, ClassAd, Expr, expr, parse_ad
from pool.classad.eval.ad import text_of
from pool.classad.eval.budget import OverBudget
from pool.classad.eval.expression import stored_value
from pool.classad.eval.frame import frames
from pool.classad.eval.match import is_match
from tests.pool.classad.cases import alike

AVAILABLE = find_spec("classad2") is not None


class Oracle:
    """The library in a process of its own, started again when it dies of a question."""

    def __init__(self) -> None:
        self._process = self._start()
        self.crashes = 0

    def _start(self) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("ask_classad2.py")
        return subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, what: str, *about: str | None) -> dict[str, str]:
        """The library's answer to one of the questions of ask_classad2; `crashed` when it died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([what, *about]) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self.close()
        self.crashes += 1
        self._process = self._start()
        return {"outcome": "crashed"}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def difference(oracle: Oracle, text: str, my: str | None, target: str | None) -> str | None:
    """What differs, in words; None when nothing does or there is nothing to compare with."""
    if target is not None and "unresolved" in f"{text} {my} {target}":
        # In a match the library goes on evaluating in the place where the search for the name ended.
        return None
    said = oracle.ask("value", text, my, target)
    if said["outcome"] == "refused":
        try:
            expr(text)
        except ClassAdError:
            return None
        return "the library refuses the text"
    if said["outcome"] not in ("value", "gave up"):
        return None
    try:
        ads = [ClassAd() if my is None else parse_ad(my), None if target is None else parse_ad(target)]
        evaluated, tired = _value(expr(text), *ads)
        _compile(expr(text), *ads)
        compiled, _ = _value(expr(text), *ads)
    except ClassAdError as error:
        return f"refused here: {error}"
    if not alike(evaluated, compiled):
        return f"evaluated {evaluated!r}, compiled {compiled!r}"
    # Where the library gave up, or we did (runaway recursion), only the fact that both ended can be compared.
    if said["outcome"] == "gave up" or tired or agree(evaluated, said["value"]):
        return None
    return f"the library says {' '.join(said['value'].split())}, here it is {evaluated!r}"


def other_text(oracle: Oracle, text: str) -> str | None:
    """What differs in how an expression is read and printed; None when nothing does."""
    said = oracle.ask("text", text)
    if said["outcome"] == "crashed":
        return None
    try:
        printed = str(expr(text))
    except ClassAdError as error:
        # The library stops reading at a bracket or a semicolon too many; and `..x` is `.x` there.
        lenient = said["outcome"] == "refused" or any(mark in text for mark in ("]", ";", ".."))
        return None if lenient else f"refused here: {error}"
    if said["outcome"] == "refused":
        return f"the library refuses what is {printed} here"
    # It lays lists and ads out, orders their attributes, and writes a quoted name after a point without its quotes.
    ours, theirs = ("".join(shown.replace("'", "").split()) for shown in (printed, said["value"]))
    same = sorted(ours) == sorted(theirs) if "[" in text else ours == theirs
    return None if same else f"the library prints {said['value']}, here it is {printed}"


def other_match(oracle: Oracle, left: str, right: str) -> str | None:
    """What differs in whether two ads match; None when nothing does."""
    said = oracle.ask("match", left, right)
    if said["outcome"] != "value":
        return None
    matched = is_match(parse_ad(left), parse_ad(right))
    return None if str(matched) == said["value"] else f"in the library they match: {said['value']}"


def _value(expression: Expr, my: ClassAd | None, target: ClassAd | None) -> tuple[Any, bool]:
    """The value, and whether evaluation ran out of depth or steps."""
    assert my is not None
    frame = frames(my.attrs, None if target is None else target.attrs)
    try:
        value = stored_value(expression.run(frame))
    except OverBudget:
        return ERROR, True
    return value, frame.budget.steps < 0


def _compile(expression: Expr, *ads: ClassAd | None) -> None:
    expression.compile()
    for ad in ads:
        for _, stored in () if ad is None else ad.own():
            if isinstance(stored, Expr):
                stored.compile()


def agree(value: Any, printed: str) -> bool:
    """Whether our value is what the library printed."""
    if "".join(text_of(value).split()) == "".join(printed.split()):
        return True
    if value is ERROR or printed == "error":
        return False
    if isinstance(value, AbsTime) and printed.startswith("absTime"):
        # Of an attribute alone, simplify() gives the moment in UTC.
        shown = expr(printed).eval()
        return isinstance(shown, AbsTime) and shown.secs == value.secs
    if printed.startswith("real("):
        return alike(value, expr(printed).eval())
    try:
        return alike(value, parse_ad(f"[x = {printed}]")["x"])
    except ClassAdError:
        # Times beyond 32 bits print as what cannot be read again.
        return "--" in printed
