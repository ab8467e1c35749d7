"""pool completion: scripts with which a shell completes commands, options and values, from the option tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from minipool.cli.entry import names
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run

TOOL = Tool(
    "pool completion",
    "Print a script that completes commands and options.",
    "bash | zsh",
    (HELP, VERSION_OPT),
    notes="Put `source <(pool completion bash)` into ~/.bashrc, or `source <(pool completion zsh)` into ~/.zshrc.",
)
_FILES = frozenset(("FILE", "DIR", "PATH"))

_BASH = """\
# Completion of pool and of condor_* for bash.
_minipool() {{
    local verb="${{COMP_WORDS[0]##*/}}" word="${{COMP_WORDS[COMP_CWORD]}}" before="" options="" files=""
    if [ "$verb" = pool ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
            return
        fi
        verb="${{COMP_WORDS[1]}}"
    fi
    verb="${{verb#condor_}}"
    before="${{COMP_WORDS[COMP_CWORD - 1]}}"
    case "$verb" in
{cases}
    esac
    case " $files " in
        *" $before "*) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _minipool pool {programs}
"""
_ZSH = """\
# Completion of pool and of condor_* for zsh.
autoload -Uz compinit && compinit -u
autoload -Uz bashcompinit && bashcompinit
{bash}"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run pool completion."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) != 1 or parsed.words[0] not in ("bash", "zsh"):
        raise UsageError("pool completion: say for which shell: bash or zsh")
    script = bash(options())
    sys.stdout.write(script if parsed.words[0] == "bash" else _ZSH.format(bash=script))
    return 0


def options() -> dict[str, tuple[Opt, ...]]:
    """The options of each verb."""
    found: dict[str, tuple[Opt, ...]] = {}
    for verb, (module, _) in (*names.TOOLS.items(), *names.POOL_VERBS.items()):
        # Without `fromlist` the package would come back, and not the module.
        loaded = __import__(f"minipool.cli.{module}", fromlist=["main"])
        tools = getattr(loaded, "TOOLS", None) or ((loaded.TOOL,) if hasattr(loaded, "TOOL") else ())
        named = {tool.name.removeprefix("condor_").removeprefix("pool ").replace(" ", "_"): tool for tool in tools}
        if tools:
            found[verb] = named.get(verb, tools[0]).options
    return found


def bash(options: Mapping[str, Sequence[Opt]]) -> str:
    """The script for bash."""
    cases = []
    for verb, rows in sorted(options.items()):
        flags = sorted(f"-{name}" for row in rows for name in row.names.split())
        files = [f"-{name}" for row in rows if row.metavar in _FILES for name in row.names.split()]
        cases.append(f'        {verb}) options="{" ".join(flags)}" files="{" ".join(files)}" ;;')
    return _BASH.format(
        verbs=" ".join(sorted({*names.TOOLS, *names.POOL_VERBS})),
        cases="\n".join(cases),
        programs=" ".join(f"condor_{verb}" for verb in sorted(names.TOOLS)),
    )
