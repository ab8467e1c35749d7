"""What somebody asked of qsub, in the style of PBS or SGE, as a submit description.

The options are those of HTCondor's manual page condor_qsub: both systems' own, where they have a counterpart in submit
commands. An option that is not known is refused; lines `#PBS` and `#$` of a script are options too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import SubmitError
from pool.base.ids import is_number
from pool.classad import quote

_VALUED: Final = frozenset("abcdefijlmoprStvWANMq")
_FLAGS: Final = frozenset({"h", "V", "I", "z"})
_LONG: Final[dict[str, bool]] = {
    # with a value or not
    "condor-keep-files": False, "cwd": False, "help": False, "print": False, "test": False, "verbose": False,
    "version": False, "hold_jid": True, "wd": True, "shell": True,
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)(?:b|w)?\Z", re.IGNORECASE)
_ARRAY: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?\Z")
HUNDRED_YEARS_S: Final = 3153600000


@dataclass
class Wishes:
    """Options by their names, and the command with its words."""

    options: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self.options

    def value(self, name: str, default: str = "") -> str:
        """Its last value."""
        return self.options[name][-1] if self.options.get(name) else default

    def add_script(self, text: str) -> None:
        """Take what the script itself asks for (`#PBS`, `#$`); the command line is stronger."""
        for line in text.splitlines():
            found = re.match(r"#(?:PBS|SGE|\$)\s+(-.*)", line)
            if found is None:
                continue
            for name, values in read_wishes(found[1].split()).options.items():
                self.options.setdefault(name, values)


def read_wishes(argv: Sequence[str]) -> Wishes:
    """The command line; SubmitError for an option that is not known."""
    wishes, words = Wishes(), list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            wishes.words = [word, *words]
            break
        name = word.lstrip("-")
        if name in _LONG:
            takes = _LONG[name]
        elif name[:1] in _VALUED | _FLAGS:
            name, rest = name[0], name[1:]
            takes = name in _VALUED
            if rest and not takes:
                raise SubmitError(f"Unknown option {word}")
            if rest:
                words.insert(0, rest)
        else:
            raise SubmitError(f"Unknown option {word}")
        if takes and not words:
            raise SubmitError(f"Option {word} requires a value")
        wishes.options.setdefault(name, []).append(words.pop(0) if takes else "")
    return wishes


def description(
    wishes: Wishes, *, here: str, shell: str, deferral: int | None = None, directories: Container[str] = ()
) -> str:
    """The submit description. `deferral` is the moment of -a, as a time since the epoch; `directories` are the places
    of -o and -e that get files with the usual names."""
    return "".join(f"{line}\n" for line in _lines(wishes, here, shell, deferral, directories))


def job_name(wishes: Wishes) -> str:
    """What the job is called."""
    return wishes.value("N") or wishes.words[0].rstrip("/").rpartition("/")[2]


def place_of(wishes: Wishes, option: str) -> str:
    """Where -o, -e or -i says that a file is; PBS may have a host before it."""
    return wishes.value(option).rpartition(":")[2]


def _lines(wishes: Wishes, here: str, shell: str, deferral: int | None, directories: Container[str]) -> Iterator[str]:
    name, value = job_name(wishes), wishes.value
    yield "universe = vanilla"
    yield "should_transfer_files = IF_NEEDED"
    yield f"batch_name = {name}"
    program = value("S") or value("shell") or shell
    yield f"executable = {program}"
    yield "transfer_executable = false"
    command = " ".join(wishes.words)
    if is_binary(wishes):
        yield f"arguments = \"-c '{_doubled(command)}'\""
    else:
        yield f'arguments = "{" ".join(_quoted(word) for word in wishes.words)}"'
    directory = value("wd") or value("d") or (here if wishes.has("cwd") else "")
    if directory:
        yield f"initialdir = {directory}"
    yield from _files(wishes, name, directories)
    yield from _environment(wishes)
    yield from _mail(wishes)
    if wishes.has("p"):
        yield f"priority = {value('p')}"
    if wishes.has("h") or wishes.has("hold_jid"):
        yield "hold = True"
    if deferral is not None:
        yield f"deferral_time = {deferral}"
        yield f"deferral_window = {HUNDRED_YEARS_S}"
        # Not matched before its time; after that it waits for a slot as long as any job.
        yield "deferral_prep_time = 0"
    if wishes.has("A"):
        yield f"accounting_group = {value('A')}"
    if value("r").lower().startswith("n"):
        yield "periodic_remove = JobStatus == 1 && NumJobStarts > 0"
    yield from _resources(value("l"))
    yield from _transfer(value("W"))
    yield from _queue(value("t"))


def is_binary(wishes: Wishes) -> bool:
    """Whether the command is a program, and no script to be read."""
    return wishes.value("b").lower().startswith("y") and not wishes.has("f")


def _doubled(text: str) -> str:
    return text.replace("'", "''").replace('"', '""')


def _quoted(word: str) -> str:
    return f"'{_doubled(word)}'" if not word or re.search(r"[\s'\"]", word) else word


def _files(wishes: Wishes, name: str, directories: Container[str]) -> Iterator[str]:
    def path(option: str) -> str:
        place, usual = place_of(wishes, option), f"{name}.{option}$(Cluster)"
        return f"{place.rstrip('/')}/{usual}" if place in directories else place or usual

    index = ".$(Item)" if wishes.has("t") else ""
    out, err = path("o"), path("e")
    if {"e", "o"} <= set(wishes.value("j")):
        out = err = out if place_of(wishes, "o") or not place_of(wishes, "e") else err
    yield f"output = {out}{index}"
    yield f"error = {err}{index}"
    if wishes.has("i"):
        yield f"input = {place_of(wishes, 'i')}"


def _environment(wishes: Wishes) -> Iterator[str]:
    if wishes.has("V"):
        yield "getenv = True"
    pairs = [part for text in wishes.options.get("v", []) for part in text.split(",") if part]
    named = [part for part in pairs if "=" not in part]
    if named and not wishes.has("V"):
        yield f"getenv = {', '.join(named)}"
    variables = [f"{name}={_quoted(text)}" for name, equals, text in (part.partition("=") for part in pairs) if equals]
    if wishes.has("t"):
        first, last, step = array_of(wishes.value("t"))
        variables += ["SGE_TASK_ID=$(Item)", f"SGE_TASK_FIRST={first}", f"SGE_TASK_LAST={last}"]
        variables += [f"SGE_TASK_STEPSIZE={step}", "PBS_ARRAYID=$(Item)"]
    if variables:
        yield f'environment = "{" ".join(variables)}"'


def _mail(wishes: Wishes) -> Iterator[str]:
    if wishes.has("M"):
        yield f"notify_user = {wishes.value('M')}"
    letters = wishes.value("m")
    kind = "Never" if "n" in letters or not letters else "Complete" if "e" in letters else "Error"
    yield f"notification = {kind}"


def _resources(text: str) -> Iterator[str]:
    """PBS-style `name=value,...`."""
    requirements: list[str] = []
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        match name.lower():
            case "mem" | "pmem" | "vmem" if equals:
                yield f"request_memory = {_size(value)}"
            case "file" if equals:
                yield f"request_disk = {_size(value)}"
            case "procs" | "ncpus" if equals:
                yield f"request_cpus = {value}"
            case "nodes" if equals:
                yield from _nodes(value, requirements)
            case "arch" | "opsys" if equals:
                attribute = "Arch" if name.lower() == "arch" else "OpSys"
                requirements.append(f"{attribute} == {quote(value.strip(chr(34)))}")
            case "host" if equals:
                requirements.append(f"Machine == {quote(value)}")
            case "walltime" | "cput" | "pcput" | "nice":
                continue
            case _:
                raise SubmitError(f"-l {part}: this resource is not known")
    if requirements:
        yield f"requirements = {' && '.join(requirements)}"


def _nodes(text: str, requirements: list[str]) -> Iterator[str]:
    """`COUNT|HOST[:ppn=N][:gpus=N]`: one machine with so many cpus; several machines are for the parallel universe."""
    first, *properties = text.split("+")[0].split(":")
    if "+" in text or (is_number(first) and int(first) > 1):
        raise SubmitError(f"-l nodes={text}: jobs of several machines are not supported")
    if not is_number(first):
        requirements.append(f"Machine == {quote(first)}")
    for one in properties:
        name, _, value = one.partition("=")
        if name == "ppn":
            yield f"request_cpus = {value}"
        elif name == "gpus":
            yield f"request_gpus = {value or 1}"
        else:
            requirements.append(f"TARGET.{name} =?= True")


def _size(text: str) -> str:
    found = _SIZE.match(text)
    if found is None:
        raise SubmitError(f"{text} is not a size (such as 200mb)")
    letter = found[2].upper()
    return f"{found[1]}{letter}B" if letter else f"{max(1, -(-int(found[1]) // 1024))}KB"


def _transfer(text: str) -> Iterator[str]:
    """`stagein=LOCAL@HOST:REMOTE,...`: what follows the colon."""
    for name, command in (("stagein", "transfer_input_files"), ("stageout", "transfer_output_files")):
        found = re.search(rf"{name}=(.*?)(?=,?stage(?:in|out)=|\Z)", text)
        if found is not None:
            files = [part.rpartition(":")[2] for part in found[1].strip("'\",").split(",") if part]
            yield f"{command} = {', '.join(files)}"


def array_of(text: str) -> tuple[int, int, int]:
    """First, last and step of an array of jobs."""
    found = _ARRAY.match(text)
    if found is None:
        raise SubmitError(f"-t {text}: this is not START[-STOP[:STEP]]")
    first = int(found[1])
    return first, int(found[2] or first), max(1, int(found[3] or 1))


def _queue(array: str) -> Iterator[str]:
    if not array:
        yield "queue"
        return
    first, last, step = array_of(array)
    yield f"queue Item in ({' '.join(map(str, range(first, last + 1, step)))})"
