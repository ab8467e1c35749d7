"""condor_findhost: which machines could leave the pool with the least harm to running jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import Tool, run
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.classad import ClassAd, Expr, expr

TOOL = Tool(
    "condor_findhost",
    "Find the machines whose leaving would disturb running jobs least.",
    "[options]",
    (
        Opt("help", 1, says="show this"),
        Opt("m", 1, says="only whole machines: those of which no slot is claimed come first"),
        Opt("n", 1, 1, "NUM", "find up to NUM machines (1)"),
        Opt("c", 1, 1, "EXPR", "only machines for which the expression is true"),
        Opt("r", 1, 1, "EXPR", "prefer machines for which the expression is large"),
        Opt("json", 4, says="print what is found as JSON"),
        Opt("p", 1, 1, "HOST[:PORT]", "the pool whose collector is at this address"),
    ),
    notes="The exit status is 0, or when fewer machines than NUM are found, one more than their number.",
)

# What would be disturbed if the machine left: nobody, a match, a job.
_COST = {"Owner": 0, "Unclaimed": 0, "Backfill": 0, "Drained": 0, "Matched": 1, "Preempting": 1, "Claimed": 2}


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_findhost."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if parsed.words:
        raise UsageError(f"condor_findhost: unexpected argument {parsed.words[0]}")
    wanted = parsed.number("n", 1)
    if wanted < 1:
        raise UserError("condor_findhost: -n needs a number greater than zero")
    install_surroundings()
    constraint, rank = _expression(parsed, "c"), _expression(parsed, "r")
    session = open_session(parsed, pool="p")
    try:
        ads = session.query("Machine", constraint=constraint.old_text if constraint is not None else None)
    except PeerError as error:
        raise UserError(f"condor_findhost: {error}") from None
    found = machines(ads, rank, whole=parsed.has("m"))[:wanted]
    if parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list({"Machine": name} for name in found)
    else:
        sys.stdout.write("".join(f"{name}\n" for name in found))
    # Scripts learn from the status how many were found (condor_findhost(1)); 1 is none at all.
    return 0 if len(found) == wanted else len(found) + 1


def _expression(parsed: Parsed, key: str) -> Expr | None:
    text = parsed.value(key)
    if text is None:
        return None
    try:
        return expr(text)
    except ClassAdError as error:
        raise UserError(f"condor_findhost: -{key} {text}: {error.message}") from None


def machines(ads: Sequence[ClassAd], rank: Expr | None, *, whole: bool) -> list[str]:
    """The names of the machines: the higher rank first, then those that do less. A machine does what its slots do:
    the busiest of them when it shall go as a whole, else the idlest.
    """
    kept: dict[str, tuple[float, int]] = {}
    for ad in ads:
        name = ad.eval_str("Machine") or ad.eval_str("Name", "").rpartition("@")[2]
        value = rank.eval(ad) if rank is not None else 0.0
        order = (-float(value) if isinstance(value, int | float) else float("inf"), _COST.get(_state(ad), 1))
        before = kept.get(name)
        if before is None:
            kept[name] = order
        elif whole:
            kept[name] = (min(before[0], order[0]), max(before[1], order[1]))
        else:
            kept[name] = min(before, order)
    return sorted(kept, key=lambda name: (*kept[name], name))


def _state(ad: ClassAd) -> str:
    return ad.eval_str("State", "Unclaimed")
