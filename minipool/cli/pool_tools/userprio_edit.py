"""What condor_userprio changes: the record of a user with the accountant, and its use so far."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from minipool.cli.entry.options import Given, Opt, Parsed, UsageError
from pool.base.errors import UserError

if TYPE_CHECKING:
    from minipool.client.session import Session
    from protocol.messages.negotiator import CancelLease, SetPriority
    from protocol.rpc.blocking import BlockingPeer


class RecordSetting(NamedTuple):
    """A number of a user's record: what it is called, what is said when it is set, and what may not be set."""

    attribute: str
    called: str
    says: str
    least: float = 0.0
    too_small: str = ""
    whole: bool = False


_TIME: Final = "Time must be greater than 0 seconds"
SETTINGS: Final[dict[str, RecordSetting]] = {
    "setprio": RecordSetting("Priority", "priority", "The priority of {} was set to {:f}", float("-inf")),
    "setfactor": RecordSetting(
        "PriorityFactor", "priority", "The priority factor of {} was set to {:f}", 1.0,
        "Priority factors must be greater than or equal to 1.",
    ),
    "setfloor": RecordSetting(
        "Floor", "floor", "The floor of {} was set to {:.0f}", 0.0,
        "floor must be greater than or equal to 0.", whole=True,
    ),
    "setceiling": RecordSetting(
        "Ceiling", "ceiling", "The ceiling of {} was set to {:.0f}", -1.0,
        "ceiling must be greater than or equal to -1.", whole=True,
    ),
    "setbegin": RecordSetting(
        "BeginUsageTime", "begin usage time", "The Begin Usage Time of {} was set to {:.0f}", 0.0, _TIME, whole=True
    ),
    # As in HTCondor, what was used without weights, and since when, stays as it is.
    "setaccum": RecordSetting(
        "WeightedAccumulatedUsage", "Accumulated usage", "The Accumulated Usage of {} was set to {:f}", 0.0,
        "Usage must be greater than 0 seconds",
    ),
    "setlast": RecordSetting(
        "LastUsageTime", "last usage time", "The Last Usage Time of {} was set to {:.0f}", 0.0, _TIME, whole=True
    ),
}  # fmt: skip
LEASES: Final = {"cancelceilinglease": "Ceiling", "cancelfloorlease": "Floor", "cancelfactorlease": "PriorityFactor"}
"""What can be set for a time, by the option that ends that."""
_LEASED: Final = {"Ceiling": "ceiling", "Floor": "floor", "PriorityFactor": "priority-factor"}
_LEASE_S_END: Final = 2**31 - 1
_ACTS: Final = tuple(Opt(name, 1, 2, "USER VALUE", f"set {row.attribute}") for name, row in SETTINGS.items())
OPTIONS: Final = (
    *_ACTS[:4],
    Opt("duration", 1, 1, "SECONDS", "how long a ceiling, a floor or a factor counts"),
    *(Opt(name, 1, 1, "USER", f"end the lease of {attribute}") for name, attribute in LEASES.items()),
    *_ACTS[4:],
    Opt("resetusage", 1, 1, "USER", "set the usage to nothing"),
    Opt("delete", 3, 1, "USER", "forget a user"),
    Opt("resetall", 1, says="set the usage of all users to nothing"),
)
"""In HTCondor's order, for a short form means the first that it fits: -s is -setprio, -d is -duration."""
KEYS: Final = frozenset(row.key for row in OPTIONS)


def edit(session: Session, parsed: Parsed) -> int:
    """Do what the options say, in their order."""
    wanted = [one for one in parsed.given if one.key in KEYS]
    # All options are looked at before the first is sent: half an order is worse than none.
    lease_s = _lease(parsed)
    acts = [_checked(one, lease_s) for one in wanted if one.key != "duration"]
    with session.daemon("negotiator", name=parsed.value("name")) as peer:
        for act in acts:
            sys.stdout.write(act(peer) + "\n")
    return 0


def _lease(parsed: Parsed) -> float:
    """What -duration says, in seconds; 0 without it. UsageError where it can do nothing."""
    if not parsed.has("duration"):
        return 0.0
    if not any(one.key in SETTINGS and SETTINGS[one.key].attribute in LEASES.values() for one in parsed.given):
        raise UsageError("-duration is for -setceiling, -setfloor and -setfactor")
    text = parsed.value("duration") or ""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < _LEASE_S_END):
        raise UserError("condor_userprio: -duration requires a positive integer number of seconds")
    return float(text)


def _checked(given: Given, lease_s: float) -> Callable[[BlockingPeer], str]:
    """What to do for one option; nothing is sent before all have been looked at."""
    if given.key == "resetall":
        return _reset_all
    user = given.values[0]
    if "@" not in user:
        raise UserError(_not_full(given.key, user))
    if given.key in SETTINGS:
        row = SETTINGS[given.key]
        value = _number(given.values[1], whole=row.whole)
        if value < row.least:
            raise UserError(row.too_small)
        return lambda peer: _set(peer, row, user, value, lease_s if row.attribute in LEASES.values() else 0.0)
    if given.key in LEASES:
        attribute = LEASES[given.key]
        return lambda peer: _cancel(peer, attribute, user)
    return (lambda peer: _reset(peer, user)) if given.key == "resetusage" else (lambda peer: _delete(peer, user))


def _not_full(key: str, user: str) -> str:
    """What is said of a name without its domain, in HTCondor's words for each option."""
    if key in LEASES:
        return f"condor_userprio: -{key} requires a full submitter name (user@domain)"
    if key == "delete":
        return full_name_wanted("delete", of="record")
    called = SETTINGS[key].called if key in SETTINGS else "priority"
    said = full_name_wanted(f"update the {called} of")
    return f"{said} (not {user})" if key in ("setfloor", "setceiling") else said


def full_name_wanted(to: str, *, of: str = "submittor") -> str:
    """What is said where a user must be named with the domain."""
    return (
        f"condor_userprio: You must specify the full name of the {of} you wish\n"
        f"\tto {to} (user@uid.domain or user@full.host.name)"
    )


def _number(text: str, *, whole: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{text!r} is not a number")
    if whole and number != int(number):
        raise UserError(f"{text!r} is not a whole number")
    return number


def _set(peer: BlockingPeer, row: RecordSetting, user: str, value: float, lease_s: float) -> str:
    from protocol.messages.negotiator import SetPriority

    request = SetPriority(submitter=user, attribute=row.attribute, value=value, lease_s=lease_s)
    if lease_s <= 0:
        peer.call(request)
        return row.says.format(user, value)
    _leasing(peer, request, f"{_LEASED[row.attribute]} lease")
    figure = f"{value:f}" if row.attribute == "PriorityFactor" else f"{value:.0f}"
    return f"Set {_LEASED[row.attribute]} lease on {user} to {figure} for {lease_s:.0f} seconds"


def _cancel(peer: BlockingPeer, attribute: str, user: str) -> str:
    from protocol.messages.negotiator import CancelLease

    _leasing(peer, CancelLease(submitter=user, attribute=attribute), "cancel")
    return f"Cancelled {_LEASED[attribute]} lease for {user}"


def _leasing(peer: BlockingPeer, request: SetPriority | CancelLease, what: str) -> None:
    from protocol.rpc.remote import RemoteError

    try:
        peer.call(request)
    except RemoteError as error:
        raise UserError(f"negotiator rejected {what}: {error}") from None


def _reset(peer: BlockingPeer, user: str) -> str:
    from protocol.messages.negotiator import SetPriority

    # Nothing of AccumulatedUsage is all of it: the usage by weight, too, and the time since when it counts.
    peer.call(SetPriority(submitter=user, attribute="AccumulatedUsage", value=0.0))
    return f"The accumulated usage of {user} was reset"


def _reset_all(peer: BlockingPeer) -> str:
    from protocol.messages.negotiator import ResetUsage

    peer.call(ResetUsage())
    return "The accumulated usage was reset for all users"


def _delete(peer: BlockingPeer, user: str) -> str:
    from protocol.messages.negotiator import ForgetSubmitter

    peer.call(ForgetSubmitter(submitter=user))
    return f"The accountant record named {user} was deleted"
