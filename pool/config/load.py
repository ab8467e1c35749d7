"""Reading a configuration: which files, in which order, and what a name means that no file mentions.

The order is that of HTCondor's manual page introduction-to-configuration: the first file that is found, or the file
that CONDOR_CONFIG names (`places`); the files of LOCAL_CONFIG_FILE, of which each may name further ones; those of
LOCAL_CONFIG_DIR by their names; `_CONDOR_NAME` of the environment; and what the program itself overrides. The last
assignment counts. A name without one has a value from the host (`Facts`), or the default of the table of knobs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence

from pool.base.errors import ConfigError
from pool.base.words import SPACE, split_list, truth_word
from pool.config import knobs
from pool.config.config import ENVIRONMENT, Config
from pool.config.places import HostFacts, named_files, refuse_another, usual_files
from pool.config.reader import ConfigReader, Reach
from pool.macros.chance import SYSTEM_CHANCE
from pool.macros.expand import Chance
from pool.macros.macro_set import MacroSet, Source

OVERRIDE = Source("<Override>")


# What the master runs where no file and no role says anything.
PERSONAL_DAEMONS = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD"


_LEFTOVERS = (
    r"^((\..*)|(.*\.pl)|(.*\.py)|(.*\.sh)|(.*~)|(#.*)|(.*\.rpmsave)|(.*\.rpmnew)"
    r"|(.*\.dpkg-old)|(.*\.dpkg-dist)|(.*\.cfsaved))$"
)
"""What LOCAL_CONFIG_DIR_EXCLUDE_REGEXP is where nobody says otherwise, and here in other words."""
_LEFTOVER_ENDINGS = (".pl", ".py", ".sh", "~", ".rpmsave", ".rpmnew", ".dpkg-old", ".dpkg-dist", ".cfsaved")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except ValueError:  # a null character, for one: no file can have such a name
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from None


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
    chance: Chance = SYSTEM_CHANCE,
) -> Config:
    """Read the configuration: the first file that is found (or `paths`), what it points to, and `_CONDOR_*`.

    `run` executes the commands of `include command`; without it they are refused. `detected` are facts about the host
    that win over what this function would find out by itself.
    """
    facts = HostFacts(environ, detected or {})

    def again(
        *,
        reader: ConfigReader | None = None,
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
    facts: HostFacts,
    environ: Mapping[str, str],
    subsystem: str,
    local_name: str,
    run: Callable[[str], str] | None,
    read: Callable[[str], str],
    chance: Chance,
) -> ConfigReader:
    def default(name: str) -> str | None:
        key = name.upper()
        if key == "SUBSYSTEM":
            return subsystem
        if key == "LOCALNAME":
            return local_name or subsystem
        if key in ("FULL_HOSTNAME", "HOSTNAME"):
            return _host_name(reader, facts, key)
        # Not before all files are read: `DAEMON_LIST = $(DAEMON_LIST) STARTD` adds to what roles have said, and to
        # nothing else.
        if key == "DAEMON_LIST" and reader.finished:
            return PERSONAL_DAEMONS
        # What the host is comes before the table's default, which may refer to it.
        fact = facts.get(name)
        if fact is not None:
            return fact
        knob = knobs.find(name)
        return knob.default or None if knob is not None else None

    reader = ConfigReader(
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


def _host_name(reader: ConfigReader, facts: HostFacts, key: str) -> str:
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
    reader: ConfigReader,
    paths: Sequence[str] | None,
    environ: Mapping[str, str],
    list_dir: Callable[[str], Sequence[str]],
) -> None:
    if paths is None:
        _read_found(reader, environ)
    else:
        for path in paths:
            _read_file(reader, path, must_exist=True)
    _read_local_files(reader)
    _read_local_dirs(reader, list_dir)
    for name in sorted(environ):
        # Last of all, so that the environment wins over files. Sorted, so that of two spellings of one name always the
        # same one counts.
        if name[:8].upper() == "_CONDOR_" and len(name) > 8:
            reader.assign(name[8:], environ[name], ENVIRONMENT)


def _read_found(reader: ConfigReader, environ: Mapping[str, str]) -> None:
    named = named_files(environ)
    if named is not None:
        for path in named:
            _read_file(reader, path, must_exist=True)
        return
    for path in usual_files(environ, os.getuid()):
        if _read_file(reader, path, must_exist=False):
            return


def _read_file(reader: ConfigReader, path: str, *, must_exist: bool) -> bool:
    try:
        text = reader.reach.read(path)
    except OSError as why:
        # Of a place that nobody named a missing file is no mistake; one that is there and cannot be read as text is.
        if must_exist or not isinstance(why, (FileNotFoundError, NotADirectoryError, PermissionError)):
            raise ConfigError(f"cannot read configuration {path}: {why.strerror or why}") from None
        return False
    reader.sources.append(path)
    reader.read_text(text, path)
    return True


def _read_local_files(reader: ConfigReader) -> None:
    """LOCAL_CONFIG_FILE: a list of files, or one command that ends in a bar."""
    said = reader.lookup("LOCAL_CONFIG_FILE")
    text = reader.expander.expand(said).strip(SPACE) if said else ""
    required = truth_word(reader.lookup("REQUIRE_LOCAL_CONFIG_FILE") or "true") is True
    if text.endswith("|"):
        command = text[:-1].strip(SPACE)
        if reader.reach.run is None:
            raise ConfigError(f"LOCAL_CONFIG_FILE = {text}: commands are not allowed here")
        reader.sources.append(text)
        reader.read_text(reader.reach.run(command), text)
        return
    done: set[str] = set()
    waiting = split_list(text)
    while waiting:
        path = waiting.pop(0)
        if path in done:
            continue
        done.add(path)
        _read_file(reader, path, must_exist=required)
        later = reader.lookup("LOCAL_CONFIG_FILE")
        # Each file may set LOCAL_CONFIG_FILE anew; what was read already is not read again, so that none includes
        # itself for ever.
        if later and later != said:  # a local file may name further ones
            said = later
            waiting = [p for p in split_list(reader.expander.expand(later)) if p not in done]


def _read_local_dirs(reader: ConfigReader, list_dir: Callable[[str], Sequence[str]]) -> None:
    """LOCAL_CONFIG_DIR: every file in it, in alphabetical order, but for those that look like backups."""
    said = reader.lookup("LOCAL_CONFIG_DIR")
    if not said:
        return
    exclude = reader.expander.expand(reader.lookup("LOCAL_CONFIG_DIR_EXCLUDE_REGEXP") or "")
    unwanted = _excluded_by(exclude)
    for directory in split_list(reader.expander.expand(said)):
        try:
            # By name, as the manual promises: 00-base before 99-site whatever order the file system has.
            entries = sorted(list_dir(directory))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as why:
            raise ConfigError(f"cannot read LOCAL_CONFIG_DIR {directory}: {getattr(why, 'strerror', why)}") from None
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
