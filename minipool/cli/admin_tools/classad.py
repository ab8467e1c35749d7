"""pool classad: the language for other programs (--jsonl), and conversion between the forms of ads (fmt)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, Tool, run
from minipool.client.surroundings import install_surroundings
from pool.base.errors import PoolError, UserError

if TYPE_CHECKING:
    from pool.classad import ClassAd

TOOL = Tool(
    "pool classad",
    "The ClassAd language.",
    "--jsonl | fmt [-from FORM] [-to FORM] [-sort] [FILE...] | eval [options] AD|EXPRESSION|ASSIGNMENT...",
    (
        HELP,
        Opt("jsonl", 1, says="answer requests: one JSON object per line in, one per line out"),
        Opt("from", 1, 1, "FORM", "fmt: the form of what is read: long, new, xml or json (default: look and see)"),
        Opt("to", 1, 1, "FORM", "fmt: the form to write (default: long)"),
        Opt("sort", 1, says="fmt: attributes in alphabetical order"),
    ),
    notes="fmt reads ads from files, or standard input; a mistake is shown with its line, column and a caret.\n"
    "eval is classad_eval.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run pool classad."""
    if argv and argv[0] == "eval":
        from minipool.cli.admin_tools import classad_eval

        return classad_eval.main("classad_eval", argv[1:])
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if parsed.has("jsonl"):
        return _answer_lines()
    if parsed.words[:1] == ["fmt"]:
        return _convert(parsed)
    raise UsageError("pool classad: say what to do")


def _answer_lines() -> int:
    from pool.classad.forms.requests import answer_line

    install_surroundings()
    _any_bytes()
    write, flush = sys.stdout.write, sys.stdout.flush
    # Not `for line in stdin`, which reads ahead: who asks waits for each answer before the next question.
    while line := sys.stdin.readline():
        if not line.isspace():
            write(answer_line(line) + "\n")
            flush()
    return 0


def _any_bytes() -> None:
    """Let bytes that are not UTF-8 pass through: ads may hold them."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")


def _convert(parsed: Parsed) -> int:
    from pool.classad.forms.lists import FORMS, write_ads

    wanted = {key: parsed.value(key) for key in ("from", "to")}
    for key, form in wanted.items():
        if form is not None and form not in FORMS:
            raise UserError(f"pool classad fmt: -{key} {form}: there is no such form", expected=", ".join(FORMS))
    _any_bytes()
    try:
        for text in write_ads(_ads(parsed), wanted["to"] or "long"):
            sys.stdout.write(text)
    except UnicodeEncodeError as error:
        raise UserError(f"pool classad fmt: the output cannot hold {error.object[error.start]!r}") from None
    return 0


def _ads(parsed: Parsed) -> Iterator[ClassAd]:
    from pool.classad.forms.lists import read_ads

    for name in parsed.words[1:] or ["-"]:
        with _opened(name) as source:
            for ad in read_ads(source, form=parsed.value("from"), file="stdin" if name == "-" else name):
                yield ad.project(sorted(ad, key=str.lower)) if parsed.has("sort") else ad


def _opened(name: str) -> TextIO:
    try:
        where = sys.stdin.fileno() if name == "-" else name
        return open(where, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=name != "-")
    except OSError as error:
        raise PoolError(f"pool classad: cannot read {name}: {error.strerror}") from None
