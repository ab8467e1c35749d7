"""What condor_submit_dag itself reads of a DAG file: what DAGMan's own job is to have, and the nested graphs.

Everything else is read by DAGMan (`pool.dag.language`). A word that is no command is an error already here, as in
HTCondor 25.14; splices and included files are not looked into.
"""

from typing import Final, NamedTuple

from pool.base.errors import SubmitError
from pool.dag.language.commands import KEYWORDS
from pool.dag.language.source import Source
from pool.dag.model import Place

_DESCRIBED: Final = {"JOB": 2, "FINAL": 2, "PROVISIONER": 2, "SERVICE": 2, "SUBMIT_DESCRIPTION": 2}
"""Which word of a command may begin a description of several lines."""


class Nested(NamedTuple):
    """A SUBDAG EXTERNAL."""

    file: str
    directory: str
    place: Place


class FirstLook(NamedTuple):
    """What is found in one DAG file."""

    configs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    get: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    nested: tuple[Nested, ...] = ()


def first_look(text: str, file: str) -> FirstLook:
    """Read the text of a DAG file; SubmitError says what is wrong where."""
    found: dict[str, list[str]] = {"CONFIG": [], "SET_JOB_ATTR": [], "GET": [], "SET": []}
    nested: list[Nested] = []
    source = Source(file, text)
    for _, number, line in source.lines():
        place, words = Place(file, number), line.split()
        command = _keyword(words[0])
        _skip_description(words, source)
        rest = line[len(words[0]) :].strip()
        if command not in KEYWORDS:
            raise SubmitError(f"{place} '{words[0].replace('-', '_')}' is not a valid DAG command")
        if command == "CONFIG":
            found[command].append(_one_file(rest, place))
        elif command == "SET_JOB_ATTR":
            if not rest:
                raise _bad(place, command, "No attribute line (key = value) provided")
            found[command].append(rest)
        elif command == "ENV":
            action, said = _environment(words, rest, place)
            found[action].append(said)
        elif command == "SUBDAG":
            nested.append(_nested(words, line, place))
    configs, attributes, get, set_ = (tuple(found[key]) for key in ("CONFIG", "SET_JOB_ATTR", "GET", "SET"))
    return FirstLook(configs, attributes, get, set_, tuple(nested))


def _skip_description(words: list[str], source: Source) -> None:
    at = _DESCRIBED.get(_keyword(words[0]), 0)
    word = words[at] if at and len(words) > at else ""
    end = "}" if word.startswith("{") else f"@{word[2:]}" if word.startswith("@=") and len(word) > 2 else ""
    # A description without an end takes the rest of the file; DAGMan says so where it reads all of it.
    if end:
        source.description(end)


def _keyword(word: str) -> str:
    return word.upper().replace("-", "_")


def _one_file(rest: str, place: Place) -> str:
    quote = rest[:1]
    if quote in ("'", '"') and quote:
        end = rest.find(quote, 1)
        if end < 0:
            raise _bad(place, "CONFIG", "Invalid quoting: no ending quote found")
        name, more = rest[1:end], rest[end + 1 :].split()
    else:
        name, *more = rest.split() or [""]
    if not name:
        raise _bad(place, "CONFIG", "No configuration file specified")
    if more:
        raise _bad(place, "CONFIG", f"Unexpected token '{more[0]}'")
    return name


def _environment(words: list[str], rest: str, place: Place) -> tuple[str, str]:
    if len(words) < 2:
        raise _bad(place, "ENV", "Missing action (SET or GET) and variables")
    action = words[1].upper()
    if action not in ("GET", "SET"):
        raise _bad(place, "ENV", f"Unexpected token '{words[1]}'")
    said = rest[len(words[1]) :].strip()
    if not said:
        raise _bad(place, "ENV", "No environment variables provided")
    return action, said if action == "SET" else ",".join(said.replace(",", " ").split())


def _nested(words: list[str], line: str, place: Place) -> Nested:
    if len(words) < 2 or words[1].upper() != "EXTERNAL":
        raise _bad(place, "SUBDAG", "Missing EXTERNAL keyword")
    if len(words) < 3:
        raise SubmitError(f"{place} No node name specified in line: <{line}>")
    if len(words) < 4:
        raise SubmitError(f"{place} No DAG file specified in line: <{line}>")
    in_directory = len(words) > 4 and words[4].upper() == "DIR"
    if in_directory and len(words) < 6:
        raise SubmitError(f"{place} No directory specified in line: <{line}>")
    return Nested(words[3], words[5] if in_directory else "", place)


def _bad(place: Place, command: str, what: str) -> SubmitError:
    return SubmitError(f"{place} Failed to parse {command} command: {what}")
