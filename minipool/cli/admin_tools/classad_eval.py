"""classad_eval: evaluate expressions in the context of an ad that the command line builds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError
from pool.classad import ClassAd, expr, parse_ad
from pool.classad.eval.ad import text_of

USAGE: Final = """Usage: classad_eval [options] <ad|expr|assignment>[ <ad|expr|assignment>]*

Evaluate ClassAd expressions.
Ads and assignments modify the ClassAd context.

Where [options] is one of
\t-[my-]file   <file>\tA file containing the initial ClassAd context
\t-target-file <file>\tA file containing the target ClassAd
\t-debug             \tEnable debug mode
\t-help              \tPrint this screen and exit

Flags may replace expressions or assignments:
\t-quiet             \tDon't print the ClassAd context after this flag
"""
BAD_CONTEXT: Final = 1
# HTCondor's program returns -1 for these.
BAD_OPTION: Final = 255


class _Stop(Exception):
    """The end of the run, with its exit status; what was wrong has been said."""

    def __init__(self, status: int) -> None:
        self.status = status


def main(verb: str, argv: Sequence[str]) -> int:
    """Run classad_eval: words take effect from left to right."""
    install_surroundings()
    try:
        _Run().words(list(argv))
    except _Stop as stop:
        return stop.status
    return 0


class _Run:
    def __init__(self) -> None:
        self.my = ClassAd()
        self.target: ClassAd | None = None
        self.quiet = False
        self.changed = True

    def words(self, words: list[str]) -> None:
        while words:
            word = words.pop(0)
            # Options take one dash or two, and act from left to right: `-quiet` counts for what follows it.
            option = word[1:] if word.startswith("--") else word
            if option in ("-file", "-my-file", "-target-file"):
                if not words:
                    _say(f"classad_eval: {word} requires an argument")
                    raise _Stop(BAD_OPTION)
                ad = _file(words.pop(0))
                if option == "-target-file":
                    self.target = ad
                else:
                    self.my, self.changed = ad, True
            elif option == "-quiet":
                self.quiet = True
            elif option == "-debug":
                from pool.classad.values import environment

                environment.install(debug=_say)
            elif option == "-help":
                sys.stdout.write(USAGE)
                raise _Stop(BAD_OPTION)
            elif (ad_or_none := _context(word)) is not None:
                self.my.update(ad_or_none)
                self.changed = True
            else:
                self.evaluate(word)

    def evaluate(self, text: str) -> None:
        """Print the context, if it is another than the last time, and the expression's value in it."""
        try:
            expression = expr(text)
        except ClassAdError as error:
            _say(f"Unable to turn '{text}' into a ClassAd or an expression.\n{error}")
            raise _Stop(BAD_CONTEXT) from None
        if self.changed and not self.quiet:
            print(self.my.new())
        self.changed = False
        print(text_of(expression.eval_lazy(self.my, self.target)))


def _context(text: str) -> ClassAd | None:
    """An ad or assignments; None when it is neither."""
    for tried in (text, f"[{text}]"):
        try:
            return parse_ad(tried)
        except ClassAdError:
            continue
    return None


def _file(path: str) -> ClassAd:
    """The first ad of a file, in any form."""
    from pool.classad.forms.lists import read_ads

    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as source:
            return next(read_ads(source, file=path), None) or ClassAd()
    except ClassAdError as error:
        _say(f"Unable to turn file '{path}' into a ClassAd.\n{error}")
    except OSError as error:
        _say(f"classad_eval: cannot read {path}: {error.strerror}")
    raise _Stop(BAD_CONTEXT)


def _say(line: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
