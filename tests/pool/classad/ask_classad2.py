"""Run as a program: one JSON request per line on stdin, what the real ClassAd library says on stdout.

A process of its own, because the library crashes on some expressions (circular ones through nested ads).
"""

from __future__ import annotations

import json
import sys

import classad2


def value(text: str, my: str | None, target: str | None) -> dict[str, str]:
    """The printed value; or what became of the request."""
    try:
        expression = classad2.ExprTree(text)
    except classad2.ClassAdException:
        return {"outcome": "refused"}
    try:
        ads = [classad2.ClassAd() if my is None else classad2.parseOne(my)]
        ads += [] if target is None else [classad2.parseOne(target)]
    except classad2.ClassAdException:
        return {"outcome": "refused ad"}
    try:
        return {"outcome": "value", "value": str(expression.simplify(*ads))}
    except classad2.ClassAdException:
        return {"outcome": "gave up"}


def text(text: str) -> dict[str, str]:
    """How the library prints an expression."""
    try:
        return {"outcome": "value", "value": str(classad2.ExprTree(text))}
    except classad2.ClassAdException:
        return {"outcome": "refused"}


def match(left: str, right: str) -> dict[str, str]:
    """Whether two ads want each other."""
    try:
        return {"outcome": "value", "value": str(classad2.parseOne(left).symmetricMatch(classad2.parseOne(right)))}
    except classad2.ClassAdException:
        return {"outcome": "refused"}


ANSWERS = {"value": value, "text": text, "match": match}

if __name__ == "__main__":
    # Reading an ad is what makes the library enter the functions that are HTCondor's rather than the language's.
    classad2.parseOne("[a = 1]")
    for line in sys.stdin:
        what, *about = json.loads(line)
        print(json.dumps(ANSWERS[what](*about)), flush=True)
