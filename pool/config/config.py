"""A configuration that has been read: typed answers, and where each came from."""

from __future__ import annotations

import os

from pool.config import knobs
from pool.config.places import Facts, named_files, refuse_another, usual_files
from pool.config.reader import Reach, Reader
from pool.errors import ConfigError, Span
from pool.hints import TYPE_CHECKING, Callable, Mapping, Sequence, TypeVar
from pool.macros.expand import Chance, next_reference, references
from pool.macros.macro_set import MacroSet, Source
from pool.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from pool.classad import Expr, Value

DEFAULT = Source("<Default>")
DETECTED = Source("<Detected>")
ENVIRONMENT = Source("<Environment>")
OVERRIDE = Source("<Override>")

# Config has methods named after these types, so its annotations need other names for them.
Str = str
Int = int
Float = float
Bool = bool
List = list
T = TypeVar("T")
N = TypeVar("N", int, float)

# What the master runs where no file and no role says anything.
PERSONAL_DAEMONS = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD"

_TRUE = frozenset(("true", "t", "yes", "1"))
_FALSE = frozenset(("false", "f", "no", "0"))

_LEFTOVERS = (
    r"^((\..*)|(.*\.pl)|(.*\.py)|(.*\.sh)|(.*~)|(#.*)|(.*\.rpmsave)|(.*\.rpmnew)"
    r"|(.*\.dpkg-old)|(.*\.dpkg-dist)|(.*\.cfsaved))$"
)
"""What LOCAL_CONFIG_DIR_EXCLUDE_REGEXP is where nobody says otherwise, and here in other words."""
_LEFTOVER_ENDINGS = (".pl", ".py", ".sh", "~", ".rpmsave", ".rpmnew", ".dpkg-old", ".dpkg-dist", ".cfsaved")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


class Config:
    """What `load_config` answers. Immutable: `with_overrides` and `reload` make new ones."""

    def __init__(self, reader: Reader, facts: Facts, again: Callable[..., Config]) -> None:
        self._reader = reader
        self._facts = facts
        self._again = again
        self._texts: dict[str, str | None] = {}

    # what it says

    def __getitem__(self, name: Str) -> Str | None:
        """The value of `name` with all macros expanded, or None when it is neither set nor has a default."""
        key = name.lower()
        if key not in self._texts:
            raw = self._reader.lookup(name)
            try:
                self._texts[key] = None if raw is None else self._reader.expander.expand(raw).strip()
            except ConfigError as error:
                raise self.error(name, error.message) from None
        return self._texts[key]

    def __contains__(self, name: Str) -> Bool:
        return bool(self[name])

    def raw(self, name: Str) -> Str | None:
        """The text of `name` as it was written, or its default's."""
        return self._reader.lookup(name)

    def expand(self, text: Str) -> Str:
        """Any text with this configuration's macros in it."""
        return self._reader.expander.expand(text)

    def expand_known(self, text: Str) -> Str:
        """The same, but references to what is not defined, and to arguments such as `$(1)`, stay."""
        expander = self._reader.expander
        at = 0
        while (one := next_reference(text, at)) is not None:
            if not one.function and (one.name.isdigit() or not one.name or expander.lookup(one.name) is None):
                at = one.end
                continue
            text = text[: one.start] + expander.value_of(one) + text[one.end :]
            at = one.start
        return text

    def str(self, name: Str, default: Str | None = None) -> Str:
        """The text; the empty text when a knob of the table has no value."""
        return self[name] or self._default(name, default, "")

    def path(self, name: Str, default: Str | None = None) -> Str:
        """The text as a path without superfluous slashes."""
        text = self.str(name, default)
        return os.path.normpath(text) if text else ""

    def list(self, name: Str, default: Sequence[Str] | None = None) -> List[Str]:
        """The text split at blanks and commas."""
        text = self[name]
        if not text:
            return list(self._default(name, default, ()))
        return text.replace(",", " ").split()

    def bool(self, name: Str, default: Bool | None = None) -> Bool:
        """A truth value; an expression counts by its value without an ad."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        lower = text.lower()
        if lower in _TRUE or lower in _FALSE:
            return lower in _TRUE
        value = self._evaluated(name, text)
        if isinstance(value, (bool, int, float)):
            return bool(value)
        raise self.error(name, f"{name} = {text} is neither true nor false")

    def int(self, name: Str, default: Int | None = None) -> Int:
        """An integer within the knob's range; an expression counts by its value."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        try:
            number: float | int = int(text)
        except ValueError:
            number = self._number(name, text, "an integer")
        return self._ranged(name, int(number))

    def float(self, name: Str, default: Float | None = None) -> Float:
        """A number within the knob's range."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        try:
            number = float(text)
        except ValueError:
            number = float(self._number(name, text, "a number"))
        return self._ranged(name, number)

    def seconds(self, name: Str, default: Float | None = None) -> Float:
        """A time in seconds, with or without units."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        number = parse_seconds(text)
        if number is None:
            number = float(self._number(name, text, "a time"))
        return self._ranged(name, number)

    def bytes(self, name: Str, default: Int | None = None) -> Int:
        """A size in bytes: `10 Mb`, `4096`."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        amount = parse_bytes(text)
        return int(self._number(name, text, "a size")) if amount is None else amount

    def expr(self, name: Str) -> Expr | None:
        """The text as a ClassAd expression, or None when there is none."""
        text = self[name]
        if not text:
            return None
        from pool.classad import expr
        from pool.errors import ClassAdError

        try:
            return expr(text)
        except ClassAdError as error:
            raise self.error(name, f"{name} = {text} is not an expression: {error.message}") from None

    # where it comes from

    def where(self, name: Str) -> Source:
        """Where the value of `name` was written; `<Default>`, `<Detected>` or `<Environment>` when in no file."""
        for full in self._spellings(name):
            found = self._reader.macros.get(full)
            if found is not None:
                return found.source
        return DETECTED if self._facts.get(name) is not None and knobs.find(name) is None else DEFAULT

    def is_set(self, name: Str) -> Bool:
        """Whether a file, the environment or an override says anything about `name`."""
        return any(full in self._reader.macros for full in self._spellings(name))

    def found_as(self, name: Str) -> Str:
        """The name under which the value was found: `SCHEDD.X` when that is what was set."""
        for full in self._spellings(name):
            if full in self._reader.macros or (full != name and self._reader.default(full) is not None):
                return full
        return name

    def names(self, *, with_defaults: Bool = True) -> List[Str]:
        """All names that have a value, in alphabetical order."""
        said = {macro.name.lower(): macro.name for macro in self._reader.macros}
        if with_defaults:
            for name in (*knobs.names(), *self._facts.names()):
                said.setdefault(name.lower(), name)
        return [said[key] for key in sorted(said)]

    @property
    def files(self) -> List[Str]:
        """The files and commands that were read, in order."""
        return list(self._reader.sources)

    @property
    def templates(self) -> List[Str]:
        """The templates that were used, in order."""
        return list(self._reader.used_templates)

    @property
    def subsystem(self) -> Str:
        return self._reader.subsystem

    @property
    def local_name(self) -> Str:
        return self._reader.local_name

    @property
    def warnings(self) -> List[Str]:
        """What the files' authors should know: `warning :` lines, and names that no table has and nothing uses."""
        return [*self._reader.warnings, *self._unknown()]

    @property
    def without_effect(self) -> List[Str]:
        """A warning for each knob that somebody has set and nothing reads."""
        from pool.config.without_effect import WITHOUT_EFFECT

        names = (name for name in self.knobs_set() if _row_of(name) in WITHOUT_EFFECT)
        return [f'{self._place(name)}: warning: "{name}" has no effect here' for name in names]

    def knobs_set(self) -> List[Str]:
        """The knobs that somebody has set, in alphabetical order, but for what a template has put there.

        A name that is of a family only by its looks and that other values refer to is the author's own.
        """
        used = self._referred_to()
        found = []
        for name in self.names(with_defaults=False):
            knob = knobs.find(name.rpartition(".")[2])
            own = knob is not None and knob.is_family and name.lower() in used
            if knob is not None and not own and not self.where(name).template:
                found.append(name)
        return found

    # other configurations

    def with_overrides(self, overrides: Mapping[Str, Str]) -> Config:
        """The same with some values replaced."""
        return self._again(reader=self._reader, overrides=overrides)

    def reload(self, *, subsystem: Str | None = None, local_name: Str | None = None) -> Config:
        """Read all files again, perhaps for another daemon."""
        return self._again(subsystem=subsystem, local_name=local_name)

    def error(self, name: Str, message: Str) -> ConfigError:
        """An error about the value of `name`, which says where that was set."""
        source = self.where(name)
        return ConfigError(message, span=Span(source.file, source.line))

    def evaluate(self, name: Str) -> Value | None:
        """The value of the expression that `name` holds, or None when it holds none."""
        text = self[name]
        return None if not text else self._evaluated(name, text)

    # helpers

    def _spellings(self, name: Str) -> List[Str]:
        prefixes = (self._reader.local_name, self._reader.subsystem)
        return [*(f"{prefix}.{name}" for prefix in prefixes if prefix), name]

    def _default(self, name: Str, given: T | None, empty: T | None) -> T:
        if given is not None:
            return given
        if empty is not None and knobs.find(name) is not None:
            return empty
        if knobs.find(name) is None and not self.is_set(name):
            raise ConfigError(f"{name} is not defined and has no default")
        raise self.error(name, f"{name} is not defined")

    def _evaluated(self, name: Str, text: Str) -> Value:
        from pool.classad import expr
        from pool.errors import ClassAdError

        try:
            return expr(text).eval()
        except ClassAdError as error:
            raise self.error(name, f"{name} = {text}: {error.message}") from None

    def _number(self, name: Str, text: Str, what: Str) -> Float:
        value = self._evaluated(name, text)
        if isinstance(value, (int, float)):
            return value
        raise self.error(name, f"{name} = {text} is not {what}")

    def _ranged(self, name: Str, number: N) -> N:
        knob = knobs.find(name)
        if knob is not None and not knob.allows(number):
            raise self.error(name, f"{name} = {number} is out of range ({knob.range_text()})")
        return number

    def _referred_to(self) -> frozenset[Str]:
        """What other values refer to, in lower case: as `$(NAME)`, or as a word of a list of attributes."""
        macros = list(self._reader.macros)
        lists = (macro.text.lower() for macro in macros if macro.name.lower().endswith(("_attrs", "_exprs")))
        words = " ".join(lists).replace(",", " ").replace("+", " ").split()
        return frozenset((*(one.name.lower() for macro in macros for one in references(macro.text)), *words))

    def _unknown(self) -> List[Str]:
        """Names that are neither knobs nor used by anything, and look like what would be a knob."""
        used = self._referred_to()
        said = []
        for macro in self._reader.macros:
            bare = macro.name.rpartition(".")[2]
            if macro.source.template or macro.source is ENVIRONMENT:  # jobs have _CONDOR_SLOT and the like
                continue
            if knobs.find(bare) or bare.lower() in used or self._facts.get(bare) is not None:
                continue
            if (trouble := _looks_like(macro.name, bare)) is not None:
                said.append(f"{self._place(macro.name)}: warning: {trouble}")
        return said

    def _place(self, name: Str) -> Str:
        source = self.where(name)
        return f"{source.file}:{source.line}" if source.line else source.file


def _row_of(name: str) -> str:
    """The name of the table's row that a knob, perhaps with a prefix, is of."""
    knob = knobs.find(name.rpartition(".")[2])
    return knob.name if knob is not None else ""


def _looks_like(name: str, bare: str) -> str | None:
    """What somebody who has set this unknown name should be told."""
    from pool.config.htcondors_own import HTCONDORS_OWN

    if bare.upper() in HTCONDORS_OWN:
        return f'"{name}" is a knob of HTCondor\'s that has no effect here'
    near = knobs.nearest(bare)
    return f'unknown knob "{name}" (did you mean "{near}"?)' if near is not None else None


def load_config(
    paths: Sequence[str] | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    subsystem: str = "TOOL",
    local_name: str = "",
    detected: Mapping[str, str] | None = None,
    run: Callable[[str], str] | None = None,
    read: Callable[[str], str] = _read,
    list_dir: Callable[[str], Sequence[str]] = os.listdir,
    chance: Chance | None = None,
) -> Config:
    """Read the configuration: the first file that is found (or `paths`), what it points to, and `_CONDOR_*`.

    `run` executes the commands of `include command`; without it they are refused. `detected` are facts about the host
    that win over what this function would find out by itself.
    """
    facts = Facts(environ, detected or {})

    def again(
        *,
        reader: Reader | None = None,
        overrides: Mapping[str, str] = overrides or {},
        subsystem: str | None = subsystem,
        local_name: str | None = local_name,
    ) -> Config:
        base = _make_reader(facts, environ, subsystem or "TOOL", local_name or "", run, read, chance)
        if reader is None:
            _read_all(base, paths, environ, list_dir)
        else:
            base.subsystem, base.local_name = reader.subsystem, reader.local_name
            base.macros = MacroSet(reader.macros)
            base.sources, base.warnings = list(reader.sources), list(reader.warnings)
        for name, text in overrides.items():
            base.assign(name, text, OVERRIDE)
        base.finished = True
        made = Config(base, facts, again)
        if environ.get("POOL_DIR"):
            refuse_another(environ, made.str("LOCAL_DIR"), str(made.where("LOCAL_DIR")))
        return made

    return again()


def _make_reader(
    facts: Facts,
    environ: Mapping[str, str],
    subsystem: str,
    local_name: str,
    run: Callable[[str], str] | None,
    read: Callable[[str], str],
    chance: Chance | None,
) -> Reader:
    def default(name: str) -> str | None:
        key = name.upper()
        if key == "SUBSYSTEM":
            return subsystem
        if key == "LOCALNAME":
            return local_name or subsystem
        if key in ("FULL_HOSTNAME", "HOSTNAME"):
            return _host_name(reader, facts, key)
        if key == "DAEMON_LIST" and reader.finished:
            return PERSONAL_DAEMONS
        fact = facts.get(name)
        if fact is not None:
            return fact
        knob = knobs.find(name)
        return knob.default or None if knob is not None else None

    reader = Reader(
        MacroSet(),
        default,
        Reach(read, run, _write),
        subsystem=subsystem,
        local_name=local_name,
        environ=environ,
        chance=chance,
        cwd=_cwd(),
    )
    return reader


def _host_name(reader: Reader, facts: Facts, key: str) -> str:
    """NETWORK_HOSTNAME when it is set, else the host's own name, with DEFAULT_DOMAIN_NAME when it has no domain."""
    given = reader.macros.text("NETWORK_HOSTNAME")
    name = (reader.expander.expand(given) if given else "") or facts.get("FULL_HOSTNAME") or "localhost"
    domain = reader.macros.text("DEFAULT_DOMAIN_NAME")
    if domain and "." not in name:
        name = f"{name}.{domain}"
    return name if key == "FULL_HOSTNAME" else name.partition(".")[0]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _read_all(
    reader: Reader, paths: Sequence[str] | None, environ: Mapping[str, str], list_dir: Callable[[str], Sequence[str]]
) -> None:
    if paths is None:
        _read_found(reader, environ)
    else:
        for path in paths:
            _read_file(reader, path, must_exist=True)
    _read_local_files(reader)
    _read_local_dirs(reader, list_dir)
    for name in sorted(environ):
        if name[:8].upper() == "_CONDOR_" and len(name) > 8:
            reader.assign(name[8:], environ[name], ENVIRONMENT)


def _read_found(reader: Reader, environ: Mapping[str, str]) -> None:
    named = named_files(environ)
    if named is not None:
        for path in named:
            _read_file(reader, path, must_exist=True)
        return
    for path in usual_files(environ, os.getuid()):
        if _read_file(reader, path, must_exist=False):
            return


def _read_file(reader: Reader, path: str, *, must_exist: bool) -> bool:
    try:
        text = reader.reach.read(path)
    except OSError as why:
        if must_exist or not isinstance(why, (FileNotFoundError, NotADirectoryError, PermissionError)):
            raise ConfigError(f"cannot read configuration {path}: {why.strerror or why}") from None
        return False
    reader.sources.append(path)
    reader.read_text(text, path)
    return True


def _read_local_files(reader: Reader) -> None:
    """LOCAL_CONFIG_FILE: a list of files, or one command that ends in a bar."""
    said = reader.lookup("LOCAL_CONFIG_FILE")
    text = reader.expander.expand(said).strip() if said else ""
    required = (reader.lookup("REQUIRE_LOCAL_CONFIG_FILE") or "true").strip().lower() in _TRUE
    if text.endswith("|"):
        command = text[:-1].strip()
        if reader.reach.run is None:
            raise ConfigError(f"LOCAL_CONFIG_FILE = {text}: commands are not allowed here")
        reader.sources.append(text)
        reader.read_text(reader.reach.run(command), text)
        return
    done: set[str] = set()
    waiting = text.replace(",", " ").split()
    while waiting:
        path = waiting.pop(0)
        if path in done:
            continue
        done.add(path)
        _read_file(reader, path, must_exist=required)
        later = reader.lookup("LOCAL_CONFIG_FILE")
        if later and later != said:  # a local file may name further ones
            said = later
            waiting = [p for p in reader.expander.expand(later).replace(",", " ").split() if p not in done]


def _read_local_dirs(reader: Reader, list_dir: Callable[[str], Sequence[str]]) -> None:
    """LOCAL_CONFIG_DIR: every file in it, in alphabetical order, but for those that look like backups."""
    said = reader.lookup("LOCAL_CONFIG_DIR")
    if not said:
        return
    exclude = reader.expander.expand(reader.lookup("LOCAL_CONFIG_DIR_EXCLUDE_REGEXP") or "")
    unwanted = _excluded_by(exclude)
    for directory in reader.expander.expand(said).replace(",", " ").split():
        try:
            entries = sorted(list_dir(directory))
        except FileNotFoundError:
            continue
        except OSError as why:
            raise ConfigError(f"cannot read LOCAL_CONFIG_DIR {directory}: {why.strerror or why}") from None
        for entry in entries:
            path = os.path.join(directory, entry)
            if not unwanted(entry) and not os.path.isdir(path):
                _read_file(reader, path, must_exist=True)


def _excluded_by(pattern: str) -> Callable[[str], object]:
    """Whether the regular expression is found in a name; the usual one is known, as tools need no `re` for it."""
    if not pattern:
        return lambda name: False
    if pattern == _LEFTOVERS:
        return lambda name: name.startswith((".", "#")) or name.endswith(_LEFTOVER_ENDINGS)
    import re

    try:
        return re.compile(pattern).search
    except re.error as why:
        raise ConfigError(f"LOCAL_CONFIG_DIR_EXCLUDE_REGEXP = {pattern}: {why}") from None
