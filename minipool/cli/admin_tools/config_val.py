"""condor_config_val: what the configuration says, and where.

The knobs are this host's as its files have them, or a daemon's as that daemon tells them (-name, -addr or a kind of
daemon). A knob that is not defined costs the exit status. Changes (-set, -rset) are the daemon's to refuse. Source:
HTCondor's manual page condor_config_val.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import ADDR, DEBUG, HELP, JSON, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.session import NotFound
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.config import Config, load_config
from pool.macros.macro_set import Source

if TYPE_CHECKING:
    from protocol.messages.common import Settings
    from protocol.rpc.blocking import BlockingPeer

_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")
TOOL = Tool(
    "condor_config_val",
    "Show the configuration.",
    "[options] {KNOB... | use CATEGORY[:TEMPLATE]}",
    (
        HELP._replace(least=2),
        Opt("summary", 3, says="what the files set, file by file", colon=True),
        Opt("dump", 1, says="all knobs, or those whose names match the arguments"),
        Opt("evaluate", 2, says="the value of the expression that a knob holds"),
        Opt("default", 3, says="the default of a knob"),
        Opt("expanded expand", 2, says="the text with its macros expanded (the usual)"),
        Opt("raw", 3, says="the text as it was written"),
        Opt("verbose", 1, says="where each knob was set, too"),
        Opt("used", 2, says="-dump: only knobs that the program knows"),
        Opt("unused", 4, says="-dump: only knobs that the program does not know"),
        Opt("config", 2, says="the files that were read"),
        Opt("macro", 3, says="the arguments with their macros expanded", colon=True),
        Opt("mixedcase", 2, says="(names are always shown as they are written)"),
        Opt("local-name", 2, 1, "NAME", "as the daemon of this local name"),
        Opt("subsystem", 3, 1, "NAME", "as this kind of daemon"),
        *(Opt(name, 3 if name in ("collector", "negotiator") else 2, says=f"ask the {name}") for name in _DAEMONS),
        Opt("set", 2, 1, "KNOB=VALUE", "set a knob of a daemon for good; it counts after condor_reconfig"),
        Opt("rset", 3, 1, "KNOB=VALUE", "the same until the daemon ends"),
        Opt("unset", 3, 1, "KNOB", "forget what -set has set"),
        Opt("runset", 5, 1, "KNOB", "forget what -rset has set"),
        Opt("writeconfig", 3, 1, "FILE", "write what the files set into one file (-: standard output)", colon=True),
        NAME,
        POOL,
        ADDR._replace(least=1),
        JSON,
        VERSION_OPT._replace(least=3),
        DEBUG._replace(least=2),
        *refused("root-config", "-config shows which file is read first", 4),
        *refused("trace", "-verbose says where each knob was set", 2),
    ),
    unknown="{} is not a valid argument",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_config_val."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    asked = next((name for name in _DAEMONS if parsed.has(name)), "")
    for key in ("set", "rset", "unset", "runset"):
        if parsed.has(key):
            return _change(parsed, asked or "master", key)
    config = _asked_config(parsed, asked or "master") if asked or _names_a_daemon(parsed) else _own_config(parsed)
    if parsed.has("writeconfig"):
        return _write_config(config, parsed.value("writeconfig") or "-", parsed.qualifier("writeconfig") or "")
    if parsed.has("summary"):
        sys.stdout.writelines(_summary(config))
        return 0
    if parsed.has("config"):
        sys.stderr.write("Configuration source:\n")
        sys.stderr.flush()
        sys.stdout.writelines(f"\t{file}\n" for file in config.files)
        return 0
    if parsed.has("dump") and parsed.has("json"):
        return _as_json(config, parsed, _dumped(config, parsed))
    if parsed.has("dump"):
        sys.stdout.writelines(_dump(config, parsed))
        return 0
    if not parsed.words:
        raise UsageError("")
    if parsed.words[0].lower() == "use":
        return _use(parsed.words[1:])
    if parsed.has("macro"):
        sys.stdout.writelines(f"{config.expand(word)}\n" for word in parsed.words)
        return 0
    if parsed.has("json"):
        return _as_json(config, parsed, parsed.words)
    return max(_show(config, parsed, word) for word in parsed.words)


def _own_config(parsed: Parsed) -> Config:
    subsystem = parsed.value("subsystem") or "TOOL"
    config = load_config(subsystem=subsystem.upper(), local_name=parsed.value("local-name") or "")
    for warning in config.warnings:
        sys.stderr.write(f"{warning}\n")
    return config


def _names_a_daemon(parsed: Parsed) -> bool:
    if parsed.has("pool") and not parsed.has("name"):
        raise UserError("Error: you must specify -name with -pool")
    return parsed.has("name") or parsed.has("addr")


def _daemon(parsed: Parsed, daemon: str) -> BlockingPeer:
    """A connection to the daemon that the options name."""
    session, name = open_session(parsed), parsed.value("name")
    try:
        return session.daemon(daemon, name=name, addr=parsed.value("addr"))
    except NotFound:
        which = f"{daemon} '{name}'" if name else f"this {daemon}"
        raise UserError(f"Can't find address for {which}\nPerhaps you need to query another pool.") from None


def _asked_config(parsed: Parsed, daemon: str) -> ToldConfig:
    """What the daemon says of its own configuration."""
    from protocol.messages.common import GetConfig

    # All knobs are a long answer, so they are asked for only where all are shown.
    every = any(parsed.has(key) for key in ("dump", "summary", "config", "writeconfig", "macro"))
    with _daemon(parsed, daemon) as peer:
        return ToldConfig(peer.call(GetConfig(names=list(parsed.words), all=every)))


def _change(parsed: Parsed, daemon: str, key: str) -> int:
    """Have a daemon change a knob (-set, -rset) or forget what was changed (-unset, -runset)."""
    from protocol.messages.common import SetConfig

    text = parsed.value(key) or ""
    name, equals, value = (part.strip() for part in text.partition("="))
    doing, sets = ("set" if "unset" not in key else "unset"), "unset" not in key
    # `-set KNOB` would empty a knob for good, and `-unset KNOB=VALUE` says two things: both are slips.
    if bool(equals) is not sets:
        wanted = 'You must specify "macro_name = value"' if sets else "To unset, you only specify the name"
        raise UserError(f'condor_config_val: Can\'t {doing} configuration value ("{name}")\n{wanted}')
    request = SetConfig(name=name, value=value if sets else None, lasting=not key.startswith("r"))
    try:
        with _daemon(parsed, daemon) as peer:
            peer.call(request)
    except PeerError as error:
        raise UserError(f'Attempt to {doing} configuration "{text}" on {daemon} failed: {error}') from None
    sys.stdout.write(f'Successfully {doing} configuration "{text}" on {daemon}; it counts after condor_reconfig.\n')
    return 0


def _write_config(config: Shown, path: str, how: str) -> int:
    """What the files set, as one file to be read in their place; `upgrade`: without what is the default anyway."""
    from pool.config import knobs

    lines = [f"# Written by condor_config_val -writeconfig from: {', '.join(config.files)}\n"]
    for name in config.names(with_defaults=False):
        raw, knob = config.raw(name) or "", knobs.find(name)
        if how.lower() == "upgrade" and knob is not None and knob.default == raw:
            continue
        # A value of several lines needs HTCondor's here-document to be read again as one.
        lines.append(f"{name} @=end\n{raw}\n@end\n" if "\n" in raw else f"{name} = {raw}\n")
    if path == "-":
        sys.stdout.writelines(lines)
        return 0
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise UserError(f"Failed to write {path}: {error.strerror}") from None
    return 0


class ToldConfig:
    """A daemon's configuration as it has told it: what `Config` answers, of the knobs that were asked for."""

    def __init__(self, told: Settings) -> None:
        self._settings = {one.name.lower(): one for one in told.settings}
        self.files = told.files

    def __getitem__(self, name: str) -> str | None:
        found = self._settings.get(name.lower())
        return found.value if found is not None else None

    def raw(self, name: str) -> str | None:
        """The text as it was written."""
        found = self._settings.get(name.lower())
        return found.raw if found is not None else None

    def where(self, name: str) -> Source:
        """Where it was written."""
        found = self._settings.get(name.lower())
        return Source(found.where if found is not None else "<Default>")

    def found_as(self, name: str) -> str:
        """Under which name it was found."""
        found = self._settings.get(name.lower())
        return found.found_as if found is not None else name

    def names(self, *, with_defaults: bool = True) -> list[str]:
        """What was told, in alphabetical order."""
        # What no file has set is marked so, as in condor_config_val -verbose.
        own = ("<Default>", "<Detected>")
        return sorted(one.name for one in self._settings.values() if with_defaults or one.where not in own)

    def expand(self, text: str) -> str:
        """Refused: a daemon expands nothing but its own knobs."""
        raise UserError("-macro and NAME=TEXT are expanded with this host's configuration, without asking a daemon")


Shown = Config | ToldConfig


def _as_json(config: Shown, parsed: Parsed, names: Iterable[str]) -> int:
    """An object for each knob: its value, its text as it was written, and where; none for one that is not defined."""
    from minipool.cli.output.json_output import write_list

    found, status = [], 0
    for name in names:
        text = _text(config, parsed, name, None)
        if text is None:
            sys.stderr.write(f"Not defined: {name}\n")
            status = 1
        else:
            found.append({"Name": name, "Value": text, "Raw": config.raw(name) or "", "Where": str(config.where(name))})
    write_list(found)
    return status


def _show(config: Shown, parsed: Parsed, word: str) -> int:
    name, equals, given = word.partition("=")
    text = _text(config, parsed, name.strip(), given if equals else None)
    if parsed.has("verbose"):
        if text is None:
            sys.stdout.write("\n")
        else:
            sys.stdout.write(f"{name} = {text}\n{_origin(config, name)}\n")
    elif text is not None:
        sys.stdout.write(f"{text}\n")
    if text is None:
        sys.stdout.flush()
        sys.stderr.write(f"Not defined: {name}\n")
        return 1
    return 0


def _text(config: Shown, parsed: Parsed, name: str, given: str | None) -> str | None:
    if parsed.has("default"):
        from pool.config import knobs

        knob = knobs.find(name)
        return knob.default if knob is not None and knob.default else None
    raw = given if given is not None else config.raw(name)
    if raw is None:
        return None
    if parsed.has("raw"):
        return raw
    text = config.expand(raw).strip() if given is not None else config[name]
    if text is None or not parsed.has("evaluate"):
        return text
    from minipool.cli.output.show import bare
    from minipool.client.surroundings import install_surroundings
    from pool.classad import expr

    install_surroundings()
    try:
        return bare(expr(text).eval())
    except ClassAdError as error:
        raise UserError(f"{name} is not an expression: {error}") from None


def _origin(config: Shown, name: str) -> str:
    return f" # at: {config.where(name)}\n # raw: {config.found_as(name)} = {config.raw(name) or ''}\n"


def _dump(config: Shown, parsed: Parsed) -> Iterable[str]:
    yield f"# Configuration from machine: {config['FULL_HOSTNAME']}\n"
    patterns = [word.lower() for word in parsed.words]
    if patterns:
        yield f"\n# Parameters with names that match {' or '.join(parsed.words)}:\n"
    for name in _dumped(config, parsed):
        text = (config.raw(name) if parsed.has("raw") else config[name]) or ""
        yield f"{name} = {text}\n"
        if parsed.has("verbose"):
            yield _origin(config, name) + "\n"
    yield "# Contributing configuration file(s):\n"
    yield from (f"#\t{file}\n" for file in config.files)


def _dumped(config: Shown, parsed: Parsed) -> Iterable[str]:
    """The names of the knobs that -dump is about."""
    from pool.config import knobs

    patterns = [word.lower() for word in parsed.words]
    for name in config.names():
        # SCHEDD.KNOB and LOCALNAME.KNOB are the knob with a prefix.
        known = knobs.find(name.rpartition(".")[2]) is not None
        wanted = not patterns or any(_matches(pattern, name) for pattern in patterns)
        if wanted and not (parsed.has("used") and not known) and not (parsed.has("unused") and known):
            yield name


def _matches(pattern: str, name: str) -> bool:
    import re

    try:
        return re.search(pattern, name, re.IGNORECASE) is not None
    except re.error:
        # What is no regular expression is taken as a part of the name, so that `*` does not end the tool.
        return pattern in name.lower()


def _summary(config: Shown) -> Iterable[str]:
    from pool.base.version import CONDOR_VERSION

    yield f"# condor_config_val {CONDOR_VERSION}\n"
    by_file: dict[str, list[tuple[int, str]]] = {}
    for name in config.names(with_defaults=False):
        source = config.where(name)
        by_file.setdefault(source.file, []).append((source.line, name))
    order = {file: at for at, file in enumerate(config.files)}
    for file in sorted(by_file, key=lambda file: (order.get(file, len(order)), file)):
        yield f"\n#\n# from {file}\n#\n"
        yield from (f"{name} = {config.raw(name) or ''}\n" for _, name in sorted(by_file[file]))


def _use(words: Sequence[str]) -> int:
    from pool.config import templates

    category, _, name = "".join(words).partition(":")
    if not category:
        sys.stdout.write("use categories are\n" + "".join(f"  {one}\n" for one in templates.categories()))
        return 0
    known = {one.lower(): one for one in templates.categories()}
    if category.lower() not in known:
        raise UserError(f"{category} is not a category of templates (known: {', '.join(known.values())})")
    if not name:
        sys.stdout.write(f"use {category.upper()} accepts\n")
        sys.stdout.writelines(f"  {one}\n" for one in sorted(templates.names(known[category.lower()]), key=str.lower))
        return 0
    text = templates.text(known[category.lower()], name.partition("(")[0].strip())
    if text is None:
        near = templates.nearest(known[category.lower()], name)
        hint = f" (did you mean {near}?)" if near else ""
        raise UserError(f"use {category.upper()}:{name} is not defined{hint}")
    sys.stdout.write(f"use {category.upper()}:{name} is\n")
    sys.stdout.writelines(f"\t{line}\n" for line in text.strip().splitlines())
    return 0
