"""condor_transform_ads: ads of files, changed by rules of the transform language, each as often as TRANSFORM says.

Rules come from files and from the configuration (JOB_TRANSFORM_<NAME>, JOB_ROUTER_ROUTE_<NAME>), and are applied in the
order in which they are named. TRANSFORM takes the arguments of a queue statement, and ends the last rules file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import install_language
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, Tool, refused, run
from minipool.client.surroundings import install_surroundings
from pool.base.errors import SubmitError, UserError
from pool.base.words import split_list
from pool.config import load_config

if TYPE_CHECKING:
    from pool.classad import ClassAd
    from pool.config import Config
    from pool.submit.rows import Rows
    from pool.transforms.transform import Transform

KNOBS: Final = {"jobtransforms": "JOB_TRANSFORM_", "jobroute": "JOB_ROUTER_ROUTE_"}
TOOL: Final = Tool(
    "condor_transform_ads",
    "Change ads by rules of the transform language.",
    "-rules FILE [options] [KEY=VALUE]... FILE...",
    (
        Opt("verbose", 1, says="say which transforms are applied"),
        Opt("terse", 3, says="do not (the default)"),
        DEBUG._replace(least=2),
        Opt("rules", 1, 1, "FILE", "take the rules from this file (- is standard input); may be repeated"),
        Opt("jobtransforms", 4, 1, "NAME,...", "apply JOB_TRANSFORM_<NAME> of the configuration"),
        Opt("jobroute", 4, 1, "NAME", "apply JOB_ROUTER_ROUTE_<NAME> of the configuration"),
        Opt("in", 1, 1, "FILE", "read ads from this file (:long, :xml, :json, :new; :auto is the default)", True),
        Opt("out", 1, 1, "FILE", "write the ads there (:long, :xml, :json, :new; :nosort keeps their order)", True),
        Opt("long", 1, says="ads are read and written in the long form"),
        Opt("json", 2, says="ads are read and written as JSON"),
        Opt("xml", 3, says="ads are read and written as XML"),
        *refused("unit-test testing", "it tests HTCondor's own program", 4),
        HELP,
        *refused("convertoldroutes", "there is no job router", 4),
    ),
    notes="KEY=VALUE is a macro, $(KEY), of the rules. Ads are written to standard output unless -out names a file.",
)  # fmt: skip


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_transform_ads."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from pool.classad.forms.lists import FORMS, write_ads

    install_surroundings()
    config = load_config(subsystem="TOOL")
    install_language(config)
    rules = list(_rules(parsed, config))
    if not rules:
        raise UsageError("ERROR : no transform rules specified.")
    form = next((key for key in ("long", "json", "xml") if parsed.has(key)), None)
    qualifiers = split_list((parsed.qualifier("out") or "").lower())
    written = next((word for word in qualifiers if word != "nosort"), form or "long")
    if written not in FORMS:
        raise UserError(f"-out:{written}: there is no such form", expected=", ".join(FORMS))
    macros = dict(word.split("=", 1) for word in parsed.words if "=" in word)
    ads = _transformed(parsed, config, rules, macros, form)
    if "nosort" not in qualifiers:
        ads = (ad.project(sorted(ad, key=str.lower)) for ad in ads)
    _write(parsed.value("out"), write_ads(ads, written))
    return 0


def _write(path: str | None, texts: Iterator[str]) -> None:
    if path in (None, "-"):
        sys.stdout.writelines(texts)
        return
    assert path is not None
    whole = "".join(texts)  # which may come from the same file
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(whole)
    except OSError as error:
        raise UserError(f"ERROR: Failed to open output file ({error.strerror})") from None


def _rules(parsed: Parsed, config: Config) -> Iterator[tuple[Transform, Rows | None]]:
    """The transforms in their order; the rows are those of a TRANSFORM statement."""
    from pool.transforms.transform import read_transform

    rows = None
    for one in parsed.given:
        # As in HTCondor: TRANSFORM makes several ads of each, and what comes behind it would not know of which.
        if rows is not None and one.key in ("rules", *KNOBS):
            raise UserError(f"Error at {one.values[0]}. Previous transform was an iterating transform")
        if one.key == "rules":
            text, rows = _file(one.values[0])
            yield read_transform(one.values[0], text), rows
        for name in split_list(one.values[0]) if one.key in KNOBS else ():
            knob = f"{KNOBS[one.key]}{name}"
            body = config.raw(knob)
            if body is None:
                raise UserError(f"{knob} is not in the configuration")
            yield read_transform(name, body), None


def _file(path: str) -> tuple[str, Rows | None]:
    """The rules of a file up to its TRANSFORM statement, and the rows of that."""
    from minipool.cli.output.ad_files import text_of

    lines = text_of(path, cannot="Can't open rules file: {path}").splitlines()
    for number, line in enumerate(lines):
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "TRANSFORM":
            return "\n".join(lines[:number]), _rows(rest, lines[number + 1 :])
    return "\n".join(lines), None


def _rows(statement: str, following: Sequence[str]) -> Rows | None:
    """The rows of a TRANSFORM statement; None where it says no more than that the rules end."""
    from pool.submit import SubmitWorld
    from pool.submit.queue_statement import MatchOptions, load_items, parse_queue, take_inline, with_header
    from pool.submit.rows import Rows

    try:
        queue = parse_queue(statement)
        if queue.inline:
            for line in following:
                if not take_inline(queue, line.strip()):
                    break
        items = load_items(queue, SubmitWorld(), MatchOptions(), lambda said: None)
        items = with_header(queue, items) if queue.table else items
    except (SubmitError, ValueError, OSError) as error:
        raise UserError(f"ERROR: TRANSFORM {statement}: {error}") from None
    places = queue.slice.picks(len(items)) if queue.slice else None
    chosen = items if places is None else [items[place] for place in places]
    if not queue.mode:
        return None if queue.count == 1 else Rows(queue, [""], queue.count)
    return Rows(queue, chosen, queue.count, places)


def _transformed(
    parsed: Parsed,
    config: Config,
    rules: Sequence[tuple[Transform, Rows | None]],
    macros: Mapping[str, str],
    form: str | None,
) -> Iterator[ClassAd]:
    from minipool.cli.output.ad_files import form_of, read

    inputs = [(one.values[0], form_of(one.qualifier) or form) for one in parsed.given if one.key == "in"]
    inputs += [(word, form) for word in parsed.words if "=" not in word]
    if not inputs:
        raise UserError("Warning: no input file specified - nothing to transform.")
    say = sys.stderr.write if parsed.has("verbose") and not parsed.has("terse") else lambda said: 0
    rows = rules[-1][1]
    given = {name.strip().lower(): value.strip() for name, value in macros.items()}
    for path, known in inputs:
        say(f"# Applying transforms to ads from {path}\n")
        # Each row begins with the ad as it was read, not as the row before has left it.
        for ad in read(path, form=known, cannot="Can't open file of ClassAds: {path}"):
            for row in rows if rows is not None else (None,):
                own = given if row is None else {
                    **given, **dict(zip(row.names, row.values, strict=True)),
                    "row": str(row.index), "itemindex": str(row.index), "step": str(row.step),
                }  # fmt: skip
                yield _applied(ad.copy() if rows is not None else ad, rules, own, config)


def _applied(
    ad: ClassAd, rules: Sequence[tuple[Transform, Rows | None]], macros: Mapping[str, str], config: Config
) -> ClassAd:
    def knob(name: str) -> str | None:
        found = macros.get(name.lower())
        return config.raw(name) if found is None else found

    for transform, _ in rules:
        if transform.matches(ad):
            transform.apply(ad, knob=knob, complain=lambda said: _complain(said))
    return ad


def _complain(said: str) -> None:
    sys.stderr.write(f"ERROR: {said}\n")
