"""pool simulate: what a recorded workload would have met under another policy, or on other machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import install_language
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, JSON, Tool, run
from minipool.client.surroundings import install_surroundings
from pool.base.errors import UserError
from pool.config import Config, load_config

if TYPE_CHECKING:
    from pool.simulate.figures import Figures, Waits

TOOL: Final = Tool(
    "pool simulate",
    "Run a recorded workload through a pool, on a clock of its own.",
    "-history FILE -machines FILE [-c KNOB=VALUE]... [-against [-c KNOB=VALUE]...] [-json] [-svg FILE]",
    (
        Opt("history", 2, 1, "FILE", "the jobs: what `condor_history -long`, -json or -xml prints, or a history file"),
        Opt("machines", 1, 1, "FILE", "the slots: what `condor_status -long`, -json or -xml prints"),
        Opt("c", 1, 1, "KNOB=VALUE", "a knob that is different from this host's configuration; may be repeated"),
        Opt("against", 1, says="try a second policy too: that of the -c behind this"),
        JSON,
        Opt("svg", 1, 1, "FILE", "write a picture there"),
        HELP,
    ),
    notes="Each job runs as long as it did. Jobs that run are not moved aside, whatever the policy says of preemption.",
)  # fmt: skip

OF_THE_CENTRE: Final = ("PREEMPTION_", "NEGOTIATOR_CONSIDER_", "ALLOW_PSLOT_PREEMPTION")
NOT_TRIED: Final = (*OF_THE_CENTRE, "PREEMPT", "RANK", "MAXJOBRETIREMENTTIME")
"""Knobs that move running jobs aside, or begin so, of the negotiator and of startds: they would be of no account."""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run pool simulate."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    history, machines = parsed.value("history"), parsed.value("machines")
    if history is None or machines is None or parsed.words:
        raise UsageError("Give the workload with -history and the slots with -machines.")
    picture = parsed.value("svg")
    if picture is not None and picture.lower().endswith(".png"):
        raise UserError(f"{picture}: pictures are SVG, not PNG", expected="a name that ends in .svg")
    found = [(name, _tried(history, machines, config)) for name, config in _policies(parsed)]
    if picture is not None:
        from pool.simulate.picture import svg

        _write(picture, svg(found))
    if parsed.has("json"):
        import json
        from dataclasses import asdict

        print(json.dumps([{"policy": name, **asdict(figures)} for name, figures in found], indent=1))
    else:
        sys.stdout.write("\n".join(_text(name, figures) for name, figures in found))
    return 0


def _policies(parsed: Parsed) -> Iterator[tuple[str, Config]]:
    """The policies with their names: what was changed for them."""
    changes: list[dict[str, str]] = [{}]
    for one in parsed.given:
        if one.key == "against":
            changes.append({})
        elif one.key == "c":
            name, value = _assignment(one.values[0])
            changes[-1][name] = value
    if len(changes) > 2:
        raise UsageError("-against can be given once.")
    for made in changes:
        config = load_config(subsystem="NEGOTIATOR", overrides=made)
        install_language(config)
        if made is changes[0]:
            _say_what_is_not_tried(config)
        yield ", ".join(f"{name}={value}" for name, value in made.items()) or "as configured", config


def _assignment(text: str) -> tuple[str, str]:
    from pool.config.knobs import find

    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UsageError(f"-c {text} is no assignment: say KNOB=VALUE.")
    if find(name.rpartition(".")[2]) is None:
        raise UserError(f"-c {text}: there is no knob {name}")
    if name.upper().startswith(NOT_TRIED):
        raise UserError(
            f"-c {text}: jobs that run are not moved aside in a simulation, for nobody knows what they would lose",
            expected="CLAIM_WORKLIFE, which bounds how long a claim takes new jobs",
        )
    return name, value


def _say_what_is_not_tried(config: Config) -> None:
    """Knobs of this host's configuration by which the negotiator would move jobs aside."""
    from pool.config.knobs import names

    for name in sorted(names()):
        if name.startswith(OF_THE_CENTRE) and config.is_set(name):
            where = config.where(name)
            print(f"{where}: {name} is passed over: jobs that run are not moved aside in a simulation", file=sys.stderr)


def _tried(history: str, machines: str, config: Config) -> Figures:
    from pool.jobs.waiting.autoclusters import SLOT_EXPRESSIONS
    from pool.simulate.engine import simulate
    from pool.simulate.figures import figures_of
    from pool.simulate.machines import read_machines
    from pool.simulate.policy import Policy
    from pool.simulate.workload import read_workload

    policy = Policy.read(config)
    slots = read_machines(_lines(machines)(), file=machines)
    reads = set(policy.reads)
    for slot in slots:
        for name in SLOT_EXPRESSIONS:
            reads |= slot.base.references(name)[1]
    return figures_of(simulate(read_workload(_lines(history), file=history, reads=reads), slots, policy))


def _lines(path: str) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                yield from file
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None

    return lines


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _text(name: str, figures: Figures) -> str:
    lines = [
        f"Policy: {name}",
        f"{figures.jobs} jobs ran in {_time(figures.took_s)}; {figures.never_started} never started.",
        *_left_out(figures),
        f"In use: {figures.utilisation:.1%} of the pool.",
        f"Waits: {_waits(figures.waits)}.",
        "",
        f"{'SUBMITTER':<28} {'JOBS':>7} {'SHARE':>7} "
        + " ".join(f"{title:>9}" for title in ("MEAN", "P50", "P90", "MAX", "STARVED"))
        + "  NEVER",
    ]
    for user in figures.users:
        waits = (user.waits.mean, user.waits.p50, user.waits.p90, user.waits.max, user.starved_s)
        shown = " ".join(f"{_time(wait):>9}" for wait in waits)
        lines.append(f"{user.submitter:<28} {user.jobs:>7} {user.share:>7.1%} {shown} {user.never_started:>6}")
    return "\n".join(lines) + "\n"


def _left_out(figures: Figures) -> list[str]:
    said = {"never ran": figures.never_ran, "take no slot": figures.elsewhere}
    left = [f"{count} that {what}" for what, count in said.items() if count]
    return [f"Left out: {', '.join(left)}."] if left else []


def _waits(waits: Waits) -> str:
    return f"mean {_time(waits.mean)}, p50 {_time(waits.p50)}, p90 {_time(waits.p90)}, max {_time(waits.max)}"


def _time(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
