"""condor_config_val: what the configuration says, and where."""

from __future__ import annotations

import sys

from minipool.cli.options import Opt, Parsed, UsageError
from minipool.cli.tool import ADDR, DEBUG, HELP, JSON, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.config import Config, load_config
from pool.errors import ClassAdError, UserError
from pool.hints import Iterable, Sequence

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
        *(Opt(name, 3 if name in ("collector", "negotiator") else 2, says=f"as the {name}") for name in _DAEMONS),
        Opt("set rset", (2, 3), 1, "KNOB=VALUE", "(refused: edit the files, then condor_reconfig)"),
        Opt("unset runset", (3, 5), 1, "KNOB", "(refused)"),
        NAME,
        POOL,
        ADDR._replace(least=1),
        JSON,
        VERSION_OPT._replace(least=3),
        DEBUG._replace(least=2),
        *refused("writeconfig", "the files are where -config says; copy those", 3),
        *refused("root-config", "-config shows which file is read first", 4),
        *refused("trace", "-verbose says where each knob was set", 2),
    ),
    unknown="{} is not a valid argument",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_config_val."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    for key in ("set", "unset"):
        if parsed.has(key):
            what = f'configuration "{parsed.value(key)}"'
            raise UserError(
                f"Attempt to {key} {what} failed: edit the configuration's files, then run condor_reconfig."
            )
    subsystem = parsed.value("subsystem") or next((name for name in _DAEMONS if parsed.has(name)), "TOOL")
    config = load_config(subsystem=subsystem.upper(), local_name=parsed.value("local-name") or "")
    for warning in config.warnings:
        sys.stderr.write(f"{warning}\n")
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


def _as_json(config: Config, parsed: Parsed, names: Iterable[str]) -> int:
    """An object for each knob: its value, its text as it was written, and where; none for one that is not defined."""
    from minipool.cli.json_output import write_list

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


def _show(config: Config, parsed: Parsed, word: str) -> int:
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


def _text(config: Config, parsed: Parsed, name: str, given: str | None) -> str | None:
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
    from minipool.cli.context import install_clock
    from minipool.cli.show import bare
    from pool.classad import expr

    install_clock()
    try:
        return bare(expr(text).eval())
    except ClassAdError as error:
        raise UserError(f"{name} is not an expression: {error}") from None


def _origin(config: Config, name: str) -> str:
    return f" # at: {config.where(name)}\n # raw: {config.found_as(name)} = {config.raw(name) or ''}\n"


def _dump(config: Config, parsed: Parsed) -> Iterable[str]:

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


def _dumped(config: Config, parsed: Parsed) -> Iterable[str]:
    """The names of the knobs that -dump is about."""
    from pool.config import knobs

    patterns = [word.lower() for word in parsed.words]
    for name in config.names():
        known = knobs.find(name.rpartition(".")[2]) is not None
        wanted = not patterns or any(_matches(pattern, name) for pattern in patterns)
        if wanted and not (parsed.has("used") and not known) and not (parsed.has("unused") and known):
            yield name


def _matches(pattern: str, name: str) -> bool:
    import re

    try:
        return re.search(pattern, name, re.IGNORECASE) is not None
    except re.error:
        return pattern in name.lower()


def _summary(config: Config) -> Iterable[str]:
    from pool.version import CONDOR_VERSION

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
