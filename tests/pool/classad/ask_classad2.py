"""Run as a program: one JSON request per line on stdin, what the real ClassAd library says on stdout.

A process of its own, because the library crashes on some expressions (circular ones through nested ads).
"""

from __future__ import annotations

import json
import sys

import classad2


def answer(text: str, my: str | None, target: str | None) -> dict[str, str]:
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


if __name__ == "__main__":
    # Reading an ad is what makes the library enter the functions that are HTCondor's rather than the language's.
    classad2.parseOne("[a = 1]")
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
