"""A checker: whether never two negotiators negotiated at once, by the logs of the negotiators and of the schedds.

Logs must have DEBUG_TIME_FORMAT = %s, and those of schedds D_FULLDEBUG. Of what happens in one second at two hosts the
order is not known, and nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

SETTINGS = {"DEBUG_TIME_FORMAT": "%s"}
_LEADS = re.compile(r"^\d+ \(\S+\) Leads\. term=(\d+)", re.MULTILINE)
_LEASE = re.compile(r"^(\d+) \(\S+\) (Leases to a negotiator|Takes matches)\. term=(\d+)", re.MULTILINE)


def led(log: str) -> list[int]:
    """The terms in which a negotiator has led, in order."""
    return [int(term) for term in _LEADS.findall(log)]


def taken(log: str) -> list[tuple[int, int]]:
    """When a schedd has taken matches, and from the negotiator of which term."""
    return [(int(at), int(term)) for at, what, term in _LEASE.findall(log) if what.startswith("Takes")]


def complaints(negotiators: Mapping[str, str], schedds: Mapping[str, str]) -> list[str]:
    """What is wrong in these logs, by host; nothing where never two negotiated at once."""
    return [*_of_negotiators(negotiators), *_of_schedds(negotiators, schedds), *_between_schedds(schedds)]


def _of_negotiators(negotiators: Mapping[str, str]) -> Iterator[str]:
    leaders: dict[int, str] = {}
    for host, log in negotiators.items():
        terms = led(log)
        if terms != sorted(terms):
            yield f"{host} leads in the terms {terms}"
        for term in set(terms):
            if (other := leaders.setdefault(term, host)) != host:
                yield f"{host} and {other} both lead in the term {term}"


def _of_schedds(negotiators: Mapping[str, str], schedds: Mapping[str, str]) -> Iterator[str]:
    leading = {term for log in negotiators.values() for term in led(log)}
    for host, log in schedds.items():
        leased = 0
        for at, what, said in _LEASE.findall(log):
            term = int(said)
            if what.startswith("Leases"):
                if term < leased:
                    yield f"{host} leases in the term {term} after {leased}, at {at}"
                leased = term
            elif term != leased:
                yield f"{host} takes matches of the term {term}, and leases to {leased}, at {at}"
            elif term not in leading:
                yield f"{host} takes matches of the term {term}, in which nobody leads, at {at}"


def _between_schedds(schedds: Mapping[str, str]) -> Iterator[str]:
    everything = sorted((at, term, host) for host, log in schedds.items() for at, term in taken(log))
    highest = 0
    for at, term, host in everything:
        if term < highest:
            yield f"{host} takes matches of the term {term} after others took some of {highest}, at {at}"
        highest = max(highest, term)
