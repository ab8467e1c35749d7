"""`condor_who -quickdaemons` and `-wait-for-ready`: whether this host's daemons are up, as one ad that scripts ask."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from minipool.client.session import Session
from pool.base.errors import PeerError
from pool.classad import ClassAd, Expr

POLL_S: Final = 0.2
_ALIVE: Final = {
    "Running": "Alive",
    "Starting": "Startup",
    # In HTCondor's words (condor_who(1), -quick): a daemon that waits to be started again is dead for now.
    "Backoff": "Dead",
    "Stopping": "Shutdown",
    "Stopped": "Hold",
}


def ready_ad(session: Session) -> ClassAd | None:
    """The daemons of this host; None when no master answers."""
    from protocol.messages.master import GetDaemons

    try:
        with session.daemon("master") as peer:
            return summary(peer.call(GetDaemons()).daemons, session)
    except PeerError:
        return None


def summary(daemons: Iterable[ClassAd], session: Session) -> ClassAd:
    """One ad of the states of all daemons: `SCHEDD = "Alive"`, and how many there are of each."""
    states = {ad.eval_str("Name", "").upper(): ad for ad in daemons}
    ad = ClassAd({"MASTER": "Alive", "MASTER_Addr": session.sinful("master")})
    words = ["Alive"]
    for name, one in states.items():
        word = _ALIVE.get(one.eval_str("State", ""), "Dead")
        words.append(word)
        ad[name] = word
        if word == "Alive":
            ad[f"{name}_PID"] = one.eval_int("Pid", 0)
            ad[f"{name}_Addr"] = session.sinful(name.lower())
            ad[f"{name}_State"] = "Ready"
    ad["NumDaemons"] = len(words)
    for word in ("Alive", "Dead", "Hold", "Hung", "Startup"):
        ad[f"Num{word}"] = words.count(word)
    # One that was stopped on purpose (condor_off) is not waited for.
    ad["IsReady"] = all(word in ("Alive", "Hold") for word in words)
    return ad


def wait(session: Session, wanted: Expr, seconds: float) -> ClassAd | None:
    """The ad as soon as the expression is true for it, or what it is when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        ad = ready_ad(session)
        if ad is not None and wanted.eval(ad) is True:
            return ad
        if time.monotonic() >= deadline:
            return ad
        time.sleep(POLL_S)
