"""One line of a DAG file to one command. Whether the nodes that it names exist, `scope.py` knows.

Keywords are read in any case, and with - for _. The rules of what may follow are those of grammar.lark, by hand:
a graph of 100,000 nodes has half a million lines, and tools pay for no parser generator at their start.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from sys import intern
from typing import Final, Literal, NamedTuple

from pool.base.nearest import nearest_name
from pool.dag.language.errors import wrong
from pool.dag.language.settings import SETTINGS, Setting
from pool.dag.language.source import Line, Source
from pool.dag.language.words import pairs, plain, rest_after, same_word, whole, words
from pool.dag.model import ALL_NODES, DotFile, Environment, NodeKind, StatusFile, Variable


class NodeLine(NamedTuple):
    """JOB, SUBDAG EXTERNAL, FINAL, PROVISIONER or SERVICE."""

    kind: NodeKind
    name: str
    submit: str
    description: str | None = None
    directory: str = ""
    noop: bool = False
    done: bool = False


class SpliceLine(NamedTuple):
    """SPLICE."""

    name: str
    file: str
    directory: str = ""


class DescriptionLine(NamedTuple):
    """SUBMIT-DESCRIPTION."""

    name: str
    text: str


class IncludeLine(NamedTuple):
    """INCLUDE."""

    file: str


class EdgesLine(NamedTuple):
    """PARENT ... CHILD ..., perhaps WEAK."""

    parents: list[str]
    children: list[str]
    weak: bool = False


class VarsLine(NamedTuple):
    """VARS."""

    node: str
    variables: tuple[Variable, ...]


class MaxJobsLine(NamedTuple):
    """MAXJOBS."""

    category: str
    limit: int


class PinLine(NamedTuple):
    """PIN_IN or PIN_OUT."""

    side: str
    node: str
    number: int


class ConnectLine(NamedTuple):
    """CONNECT."""

    parent: str
    child: str


class GraphSetting(NamedTuple):
    """What a command says of the whole graph: a field of `Dag`, and its value."""

    keyword: str
    field: str
    value: object


Command = (
    NodeLine | SpliceLine | DescriptionLine | IncludeLine | EdgesLine | Setting | VarsLine
    | MaxJobsLine | PinLine | ConnectLine | GraphSetting
)  # fmt: skip

Where = Literal["", "PREPEND", "APPEND"]
_PLAIN_VARS: Final = re.compile(r"VARS\s+([^\s\"']+)((?:\s+\w+=\"[^\"\\]*\")+)$")
"""VARS as nearly all are: without what has to be looked at more closely."""
_PLAIN_PAIR: Final = re.compile(r"(\w+)=\"([^\"\\]*)\"")
RESERVED: Final = frozenset(("PARENT", "CHILD", ALL_NODES))
_NODES: Final[dict[str, NodeKind]] = {
    "JOB": "JOB", "SUBDAG": "SUBDAG", "FINAL": "FINAL", "PROVISIONER": "PROVISIONER", "SERVICE": "SERVICE",
}  # fmt: skip


def parse(line: Line, source: Source) -> Command:
    """The command of a line. An inline description is taken from `source`, which stands behind the line."""
    if line.text.startswith("VARS ") and (plainly := _PLAIN_VARS.match(line.text)):
        return VarsLine(plainly[1], _variables(line, _PLAIN_PAIR.findall(plainly[2]), ""))
    said = words(line, free=line.text[:3].upper() in _FREE)
    # As it is mostly written, and then, to be sure, in any case.
    keyword = said[0] if said[0] in KEYWORDS else said[0].upper().replace("-", "_")
    if keyword in _NODES:
        return _node(line, said, _NODES[keyword], source)
    if (read := _READ.get(keyword)) is not None:
        return read(line, said)
    if keyword == "SUBMIT_DESCRIPTION":
        return _description(line, said, source)
    near = nearest_name(keyword, sorted(KEYWORDS))
    hint = f" (did you mean {near}?)" if near else ""
    raise wrong(f"{said[0]} is not a command of DAG files{hint}", *line, said[0])


def _node(line: Line, said: list[str], kind: NodeKind, source: Source) -> NodeLine:
    if kind == "SUBDAG":
        if len(said) < 2 or not same_word(said[1], "EXTERNAL"):
            raise wrong("SUBDAG without EXTERNAL", *line, expected="SUBDAG EXTERNAL name file")
        said = said[1:]
    # A name and a file, as nearly all say.
    if len(said) == 3 and said[2][0] not in "{@" and said[1].upper() not in RESERVED:
        return NodeLine(kind, said[1], intern(plain(said[2])))
    if len(said) < 3:
        raise wrong(
            f"{said[0] if kind != 'SUBDAG' else kind} wants a name and a {_TAKES[kind]}", *line, expected=_SYNTAX[kind]
        )
    if said[1].upper() in RESERVED:
        raise wrong(f"{said[1]} is a reserved word, and no node's name", *line, said[1])
    description = None
    options = said[3:]
    if kind != "SUBDAG" and (end := _end_mark(line, said[2])) is not None:
        _nothing_behind(line, options, said[2])
        # NOOP and its like stand behind the end mark.
        description, more = _inline(line, end, source)
        options = words(Line(line.file, line.number, more))
    return _node_options(
        line, NodeLine(kind, said[1], "" if description is not None else plain(said[2]), description), options
    )


def _node_options(line: Line, node: NodeLine, options: list[str]) -> NodeLine:
    at = 0
    while at < len(options):
        option = options[at]
        at += 1
        if same_word(option, "NOOP"):
            node = node._replace(noop=True)
        elif same_word(option, "DONE"):
            node = node._replace(done=True)
        elif same_word(option, "DIR"):
            node, at = node._replace(directory=_directory(line, options, at)), at + 1
        else:
            raise wrong(f"{option} is not known here", *line, option, expected=_SYNTAX[node.kind])
    return node


def _directory(line: Line, options: list[str], at: int) -> str:
    if at >= len(options):
        raise wrong("DIR wants a directory", *line, expected="DIR directory")
    return plain(options[at])


def _end_mark(line: Line, word: str) -> str | None:
    """What ends the inline description that a word begins; None if it begins none."""
    if word[0] == "{":
        return "}"
    if not word.startswith("@="):
        return None
    if len(word) == 2:
        raise wrong("@= wants the mark that ends the description", *line, word, expected="@=END ... @END")
    return "@" + word[2:]


def _inline(line: Line, end: str, source: Source) -> tuple[str, str]:
    found = source.description(end)
    if found is None:
        raise wrong(f"the description is not ended by {end}", *line, expected=f"a line of its own with {end}")
    return found


def _nothing_behind(line: Line, options: list[str], begin: str) -> None:
    if options or begin[0] == "{" != begin:
        raise wrong(f"nothing stands behind the {begin[:1]} of a description", *line, begin, expected="a new line")


def _description(line: Line, said: list[str], source: Source) -> DescriptionLine:
    end = _end_mark(line, said[2]) if len(said) > 2 else None
    if end is None:
        raise wrong("SUBMIT-DESCRIPTION wants a name and a description", *line, expected="SUBMIT-DESCRIPTION name {")
    _nothing_behind(line, said[3:], said[2])
    text, more = _inline(line, end, source)
    if more.strip():
        raise wrong(f"{more.strip()} behind the end of a description", *line, expected="nothing")
    return DescriptionLine(said[1], text)


def _splice(line: Line, said: list[str]) -> SpliceLine:
    if len(said) < 3:
        raise wrong("SPLICE wants a name and a DAG file", *line, expected="SPLICE name file [DIR directory]")
    directory = ""
    if len(said) > 3:
        if not same_word(said[3], "DIR") or len(said) > 5:
            raise wrong(f"{said[-1]} is not known here", *line, said[-1], expected="SPLICE name file [DIR directory]")
        directory = _directory(line, said, 4)
    return SpliceLine(said[1], plain(said[2]), directory)


def _edges(line: Line, said: list[str]) -> EdgesLine:
    # Nearly all lines are PARENT one CHILD some.
    at = 2 if len(said) > 3 and said[2] in ("CHILD", "child") else _child_at(said)
    parents, children = said[1:at], said[at + 1 :]
    if not parents or not children:
        missing = "parent" if not parents else "CHILD" if at >= len(said) else "child"
        raise wrong(f"{missing} is missing", *line, expected="PARENT node... CHILD node...")
    if "CHILD" in children or "child" in children:
        raise wrong("CHILD stands twice", *line, expected="PARENT node... CHILD node...")
    return EdgesLine(parents, children)


def _child_at(said: list[str]) -> int:
    return next((at for at, word in enumerate(said) if at and same_word(word, "CHILD")), len(said))


def _weak(line: Line, said: list[str]) -> EdgesLine:
    if len(said) < 2 or not same_word(said[1], "PARENT"):
        raise wrong("WEAK stands before PARENT only", *line, expected="WEAK PARENT ... CHILD ...")
    return _edges(line, said[1:])._replace(weak=True)


def _vars(line: Line, said: list[str]) -> VarsLine:
    if len(said) < 2:
        raise wrong("VARS wants a node", *line, expected=_VARS)
    first = said[2].upper() if len(said) > 2 else ""
    where: Where = "PREPEND" if first == "PREPEND" else "APPEND" if first == "APPEND" else ""
    found = pairs(line, rest_after(line.text, 3 if where else 2))
    if not found:
        raise wrong("VARS without a variable", *line, expected=_VARS)
    return VarsLine(said[1], _variables(line, found, where))


def _variables(line: Line, found: list[tuple[str, str]], where: Where) -> tuple[Variable, ...]:
    return tuple([Variable(_variable(line, name), value, where) for name, value in found])


def _variable(line: Line, name: str) -> str:
    # As in a submit file, an attribute of the job.
    if name[0] == "+":
        name = "My." + name[1:]
    if name == "My.":
        raise wrong("+ wants the name of an attribute", *line, "+", expected=_VARS)
    if name[:5].lower() == "queue":
        raise wrong(f"{name} is not a variable's name: none begins with queue", *line, name)
    return intern(name)


def _include(line: Line, said: list[str]) -> IncludeLine:
    return IncludeLine(_one_file(line, said))


def _max_jobs(line: Line, said: list[str]) -> MaxJobsLine:
    _exactly(line, said, 3, "MAXJOBS category number")
    return MaxJobsLine(said[1], whole(line, said[2], "a number of nodes", least=0))


def _pin_in(line: Line, said: list[str]) -> PinLine:
    _exactly(line, said, 3, "PIN_IN node number")
    return PinLine("PIN_IN", said[1], whole(line, said[2], "a pin number", least=1))


def _pin_out(line: Line, said: list[str]) -> PinLine:
    _exactly(line, said, 3, "PIN_OUT node number")
    return PinLine("PIN_OUT", said[1], whole(line, said[2], "a pin number", least=1))


def _connect(line: Line, said: list[str]) -> ConnectLine:
    _exactly(line, said, 3, "CONNECT splice splice")
    return ConnectLine(said[1], said[2])


def _config(line: Line, said: list[str]) -> GraphSetting:
    return GraphSetting("CONFIG", "config", _one_file(line, said))


def _jobstate_log(line: Line, said: list[str]) -> GraphSetting:
    return GraphSetting("JOBSTATE_LOG", "jobstate_log", _one_file(line, said))


def _reject(line: Line, said: list[str]) -> GraphSetting:
    _exactly(line, said, 1, "REJECT alone")
    return GraphSetting("REJECT", "rejected", None)


def _one_file(line: Line, said: list[str]) -> str:
    _exactly(line, said, 2, f"{said[0]} file")
    return plain(said[1])


def _exactly(line: Line, said: list[str], count: int, syntax: str) -> None:
    if len(said) > count:
        raise wrong(f"{said[count]} is not known here", *line, said[count], expected=syntax)
    if len(said) < count:
        raise wrong(f"{said[0]} wants more", *line, expected=syntax)


def _status_file(line: Line, said: list[str]) -> GraphSetting:
    if len(said) < 2:
        raise wrong("NODE_STATUS_FILE wants a file", *line, expected=_STATUS)
    status = StatusFile(plain(said[1]))
    for word in said[2:]:
        if same_word(word, "ALWAYS_UPDATE"):
            status = status._replace(always=True)
        else:
            status = status._replace(min_interval_s=whole(line, word, "a number of seconds", least=0))
    return GraphSetting("NODE_STATUS_FILE", "status_file", status)


def _dot(line: Line, said: list[str]) -> GraphSetting:
    if len(said) < 2:
        raise wrong("DOT wants a file", *line, expected=_DOT)
    dot = DotFile(plain(said[1]))
    options = iter(said[2:])
    for option in options:
        match option.upper().replace("-", "_"):
            case "UPDATE" | "DONT_UPDATE" as word:
                dot = dot._replace(update=word == "UPDATE")
            case "OVERWRITE" | "DONT_OVERWRITE" as word:
                dot = dot._replace(overwrite=word == "OVERWRITE")
            case "INCLUDE":
                if (header := next(options, None)) is None:
                    raise wrong("INCLUDE wants a file", *line, option, expected=_DOT)
                dot = dot._replace(include=plain(header))
            case _:
                raise wrong(f"{option} is not known here", *line, option, expected=_DOT)
    return GraphSetting("DOT", "dot", dot)


def _attribute(line: Line, said: list[str]) -> GraphSetting:
    name, equals, value = rest_after(line.text, 1).partition("=")
    if not (name.strip() and equals and value.strip()):
        raise wrong("SET_JOB_ATTR wants an attribute and its value", *line, expected="SET_JOB_ATTR name = value")
    return GraphSetting("SET_JOB_ATTR", "attributes", (name.strip(), value.strip()))


def _environment(line: Line, said: list[str]) -> GraphSetting:
    text = rest_after(line.text, 2)
    if text and same_word(said[1], "GET"):
        # Commas are as good as blanks in what becomes getenv.
        environment = Environment(get=tuple(text.replace(",", " ").split()))
    elif text and same_word(said[1], "SET"):
        environment = Environment(set=tuple(part.strip() for part in text.split(";") if part.strip()))
    else:
        raise wrong("ENV wants GET or SET, and variables", *line, expected="ENV GET name... or ENV SET name=value;...")
    return GraphSetting("ENV", "environment", environment)


_FREE: Final = frozenset(("SCR", "SET", "ENV"))
_VARS: Final = 'VARS node [PREPEND | APPEND] name="value"...'
_STATUS: Final = "NODE_STATUS_FILE file [seconds] [ALWAYS-UPDATE]"
_DOT: Final = "DOT file [UPDATE | DONT-UPDATE] [OVERWRITE | DONT-OVERWRITE] [INCLUDE file]"
_TAKES: Final = dict.fromkeys(_NODES, "submit description") | {"SUBDAG": "DAG file"}
_SYNTAX: Final = {kind: f"{kind} name description [DIR directory] [NOOP] [DONE]" for kind in _NODES} | {
    "SUBDAG": "SUBDAG EXTERNAL name file [DIR directory] [NOOP] [DONE]"
}
_READ: Final[dict[str, Callable[[Line, list[str]], Command]]] = {
    "PARENT": _edges, "WEAK": _weak, "VARS": _vars, **SETTINGS, "SPLICE": _splice, "INCLUDE": _include,
    "MAXJOBS": _max_jobs, "PIN_IN": _pin_in, "PIN_OUT": _pin_out, "CONNECT": _connect, "CONFIG": _config,
    "JOBSTATE_LOG": _jobstate_log, "NODE_STATUS_FILE": _status_file, "DOT": _dot, "SET_JOB_ATTR": _attribute,
    "ENV": _environment, "REJECT": _reject,
}  # fmt: skip
KEYWORDS: Final = frozenset((*_NODES, *_READ, "SUBMIT_DESCRIPTION"))
