"""condor_advertise: give a collector ads from a file, or take ads from it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, POOL, VERSION_OPT, Tool, run
from pool.base.errors import ClassAdError, PeerError, UserError

if TYPE_CHECKING:
    from pool.classad import ClassAd
    from protocol.messages.collector import InvalidateAds

TYPES: Final = {
    "UPDATE_STARTD_AD": "Machine",
    "UPDATE_SCHEDD_AD": "Scheduler",
    "UPDATE_MASTER_AD": "DaemonMaster",
    "UPDATE_GATEWAY_AD": "Gateway",
    "UPDATE_CKPT_SRVR_AD": "CkptServer",
    "UPDATE_NEGOTIATOR_AD": "Negotiator",
    "UPDATE_HAD_AD": "HAD",
    "UPDATE_AD_GENERIC": "Generic",
    "UPDATE_SUBMITTOR_AD": "Submitter",
    "UPDATE_COLLECTOR_AD": "Collector",
    "UPDATE_LICENSE_AD": "License",
    "UPDATE_STORAGE_AD": "Storage",
    "UPDATE_ACCOUNTING_AD": "Accounting",
}
"""update command -> the MyType of its ads"""

INVALIDATIONS: Final = {
    name.replace("UPDATE", "INVALIDATE").replace("_AD", "_ADS"): my_type for name, my_type in TYPES.items()
}

TOOL = Tool(
    "condor_advertise",
    "Give ads to a collector, or take them from it.",
    "[options] [UPDATE-COMMAND [FILE]]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        POOL,
        Opt("multiple", 1, says="the file holds several ads, with empty lines between them"),
        Opt("tcp", 1, says="by TCP, as always"),
        Opt("udp", 1, says="by TCP as well"),
    ),
    notes="UPDATE-COMMAND is UPDATE_STARTD_AD, UPDATE_SCHEDD_AD, UPDATE_MASTER_AD, UPDATE_AD_GENERIC and so on, or\n"
    "INVALIDATE_STARTD_ADS and its like; without one, it is that of the first ad's MyType. FILE is standard input\n"
    "when it is - or absent.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_advertise."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) > 2:
        raise UsageError(f"Unknown argument: {parsed.words[2]}")
    command, path = _command_and_file(parsed.words)
    ads = _read(path, several=parsed.has("multiple"))
    if command is None:
        # All ads of a file go the way of the first, as in condor_advertise.
        command = _command_of(ads[0])
    session = open_session(parsed)
    try:
        with session.collector() as peer:
            if command in INVALIDATIONS:
                for ad in ads:
                    peer.call(_invalidation(ad, INVALIDATIONS[command]))
            else:
                from protocol.messages.collector import AdUpdate, UpdateAds

                for ad in ads:
                    ad["MyType"] = ad.eval_str("MyType") or TYPES[command]
                peer.call(UpdateAds(updates=[AdUpdate(ad=ad) for ad in ads]))
    except PeerError as error:
        raise UserError(f"failed to send classad to {session.collector_address()}\n{error}") from None
    sys.stdout.write(f"Sent {len(ads)} of {len(ads)} ad{'s' if len(ads) > 1 else ''} to {_where(parsed)}.\n")
    return 0


def _where(parsed: Parsed) -> str:
    pool = parsed.value("pool")
    return pool or "the collector"


def _command_and_file(words: Sequence[str]) -> tuple[str | None, str]:
    if not words:
        raise UsageError("You must specify an update command to read from standard input")
    command = words[0].upper()
    if command in TYPES or command in INVALIDATIONS:
        return command, words[1] if len(words) > 1 else "-"
    if len(words) > 1:
        raise UserError(f"Unknown command name {words[0]}")
    return None, words[0]


def _command_of(ad: ClassAd) -> str:
    my_type = ad.eval_str("MyType", "")
    for command, known in TYPES.items():
        if known == my_type:
            return command
    return "UPDATE_AD_GENERIC"


def _read(path: str, *, several: bool) -> list[ClassAd]:
    from minipool.cli.output.ad_files import read, read_one

    cannot = "couldn't open {path}: {why}"
    try:
        ads = read(path, cannot=cannot) if several else [read_one(path, cannot=cannot)]
    except ClassAdError as error:
        raise UserError(f"failed to parse ClassAd: {error}") from None
    if not ads or not len(ads[0]):
        raise UserError(f"there is no ClassAd in {path}")
    return ads


def _invalidation(ad: ClassAd, my_type: str) -> InvalidateAds:
    from pool.hosts.daemon_names import kept_name
    from protocol.messages.collector import InvalidateAds

    # In an ad that takes others back, TargetType is their type (condor_advertise(1)).
    ad_type = ad.eval_str("TargetType") or my_type
    constraint = ad.text("Requirements") if "Requirements" in ad else None
    about = ad.copy()
    about["MyType"] = ad_type
    name = kept_name(about)
    names = [name] if name and constraint is None else []
    if constraint is None and not names:
        raise UserError("the ad says by neither Name nor Requirements which ads shall go")
    return InvalidateAds(ad_type=ad_type, names=names, constraint=constraint)
