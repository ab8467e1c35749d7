"""Who may send what: one row for each message that a process of the pool answers, and for each type of ad.

The levels are HTCondor's ("Access Level Descriptions" of its manual page admin-manual/security); duties are not.
A row names the level that the sender needs and, where the message is the business of certain hosts, their duties: a
level can be given by an ALLOW_* list, a duty only by the host's certificate. Root and the pool's owner, on the host
itself, have every duty; users and tokens have those whose levels they were given (`DUTY_OF`). `method` names the one
way in which the sender must have proved itself, where a connection is made for a single purpose.

A `Service` is made with the rows of its side of a connection and answers nothing that has none. docs/security-duties.md
is written from these tables.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from protocol.security.authorize import Level
from protocol.security.identity import Who

_L = Level

CENTRAL: Final = "central"
SUBMIT: Final = "submit"
EXECUTE: Final = "execute"

DUTY_OF: Final[Mapping[Level, str]] = {
    _L.NEGOTIATOR: CENTRAL,
    _L.ADVERTISE_SCHEDD: SUBMIT,
    _L.ADVERTISE_STARTD: EXECUTE,
}
"""What somebody may do as who has no certificate, by his levels."""


class Need(NamedTuple):
    """What it takes to send a message."""

    level: Level = _L.READ
    duties: frozenset[str] = frozenset()  # one of them; empty: whoever has the level
    method: str = ""

    def objection(self, who: Who) -> str:
        """What the sender lacks; "" when he may."""
        if self.level not in who.levels:
            return f"needs {self.level.value}"
        if self.method and who.method != self.method:
            return f"must come by {self.method}"
        if self.duties and not self.duties & duties_of(who):
            return f"needs the duty {' or '.join(sorted(self.duties))}"
        return ""


Needs = Mapping[str, Need]


def duties_of(who: Who) -> frozenset[str]:
    """The duties of a host by its certificate; of anybody else, those that his levels stand for."""
    if who.method == "SSL":
        return who.duties
    return _stood_for(who.levels)


@lru_cache(maxsize=128)
def _stood_for(levels: frozenset[Level]) -> frozenset[str]:
    return frozenset(duty for level, duty in DUTY_OF.items() if level in levels)


_read = Need()
_write = Need(_L.WRITE)
_administrator = Need(_L.ADMINISTRATOR)
_from_access_point = Need(_L.DAEMON, frozenset({SUBMIT}))
_from_negotiator = Need(_L.NEGOTIATOR, frozenset({CENTRAL}))
_by_ticket = Need(method="TICKET")
_by_certificate = Need(method="SSL")
_by_birth = Need(method="PAIR")

EVERY_DAEMON: Final[Needs] = {
    "common.ping": _read,
    "common.get_ad": _read,
    "common.get_config": _read,
    "common.set_config": _read,  # ENABLE_*_CONFIG and SETTABLE_ATTRS_<LEVEL> decide the rest
    "common.reconfigure": _administrator,
    "common.stop": _administrator,
    "common.set_log_level": _administrator,
    "common.fetch_log": _administrator,
}

MASTER: Final[Needs] = {
    **EVERY_DAEMON,
    "master.daemons": _read,
    "master.on": _administrator,
    "master.off": _administrator,
    "master.restart": _administrator,
    "master.drain_first": _administrator,
    "master.set_shutdown": _administrator,
    "master.create_token": _read,  # for whom it shall be decides the rest
    "master.join": _read,  # the word to join with decides
    "master.watch_membership": _by_certificate,
    "master.list_hosts": _administrator,
    "master.revoke_hosts": _administrator,
}

COLLECTOR: Final[Needs] = {
    **EVERY_DAEMON,
    "collector.query": _read,
    "collector.watch": _read,  # PRIVATE_ADS for claim ids
    "collector.update": _read,  # and the row of each ad in ADS
    "collector.update_alike": _read,  # the same
    "collector.change": _read,  # the same
    "collector.invalidate": _read,  # the same
    "collector.note_wanted": _from_negotiator,
}

PRIVATE_ADS: Final = _from_negotiator
"""What it takes to be shown the private halves of ads, which hold claim ids."""

ADS: Final[Needs] = {
    "Machine": Need(_L.ADVERTISE_STARTD, frozenset({EXECUTE, CENTRAL})),
    "StartD": Need(_L.ADVERTISE_STARTD, frozenset({EXECUTE, CENTRAL})),
    "Scheduler": Need(_L.ADVERTISE_SCHEDD, frozenset({SUBMIT, CENTRAL})),
    "Submitter": Need(_L.ADVERTISE_SCHEDD, frozenset({SUBMIT, CENTRAL})),
    "DaemonMaster": Need(_L.ADVERTISE_MASTER),
    "Negotiator": _from_negotiator,
    "Accounting": _from_negotiator,
    "HAD": _from_negotiator,
    "Collector": Need(_L.DAEMON, frozenset({CENTRAL})),
    "Defrag": Need(_L.DAEMON, frozenset({CENTRAL})),
    "Rooster": Need(_L.DAEMON),
}
"""What it takes to publish an ad, or to take it back, by its type; collectors forward others' (CONDOR_VIEW_HOST)."""

OTHER_ADS: Final = Need(_L.DAEMON)
"""The same for every other type."""

NEGOTIATOR: Final[Needs] = {
    **EVERY_DAEMON,
    "negotiator.get_priorities": _read,
    "negotiator.explain_job": _read,
    "negotiator.announce_work": Need(_L.ADVERTISE_SCHEDD, frozenset({SUBMIT})),
    "negotiator.meet": Need(_L.ADVERTISE_SCHEDD, frozenset({SUBMIT})),
    "negotiator.standing": _from_negotiator,
    "negotiator.follow_accounts": _from_negotiator,
    "negotiator.return_matches": Need(_L.ADVERTISE_SCHEDD, frozenset({SUBMIT})),
    "negotiator.negotiate_now": _from_access_point,
    "negotiator.set_priority": _administrator,
    "negotiator.cancel_lease": _administrator,
    "negotiator.forget_submitter": _administrator,
    "negotiator.reset_usage": _administrator,
}

SCHEDD: Final[Needs] = {
    **EVERY_DAEMON,
    "schedd.query_jobs": _read,
    "schedd.count_jobs": _read,
    "schedd.query_history": _read,
    "schedd.watch_jobs": _read,
    "schedd.query_users": _read,
    "schedd.submit": _write,
    "schedd.reserve_cluster": _write,
    "schedd.open_spool": _write,
    "schedd.close_spool": _write,
    "schedd.fetch_spool": _write,
    "schedd.spool_fetched": _write,
    "schedd.act": _write,  # whose job it is decides the rest, here and below
    "schedd.edit": _write,
    "schedd.run_now": _write,
    "schedd.reschedule": _write,
    "schedd.set_users": _write,
    "live.tail": _write,
    "live.open_shell": _write,
    "live.shell_input": _write,
    "live.resize_shell": _write,
    "schedd.direct_attach": Need(_L.ADVERTISE_STARTD, frozenset({EXECUTE})),  # slots of its own host
    "schedd.starter_ready": _by_ticket,  # the claim's, and from the host of its startd; here and below
    "schedd.starter_rests": _by_ticket,
    "schedd.job_executing": _by_ticket,
    "schedd.job_update": _by_ticket,
    "schedd.job_notice": _by_ticket,
    "schedd.job_ended": _by_ticket,
    "schedd.read_job_attribute": _by_ticket,
    "schedd.set_job_attributes": _by_ticket,
    "schedd.write_to_log": _by_ticket,
    "live.run_on_node": _by_ticket,
}
"""On its port."""

SCHEDD_TO_NEGOTIATOR: Final[Needs] = {
    "schedd.ask_lease": _from_negotiator,
    "schedd.offer_matches": _from_negotiator,
    "schedd.reject_requests": _from_negotiator,
    "schedd.negotiator_reads": _from_negotiator,
}
"""On the connection that it has opened to the negotiator."""

SCHEDD_TO_STARTD: Final[Needs] = {
    "schedd.claim_changed": Need(duties=frozenset({EXECUTE})),  # of its own claims; so the next
    "schedd.job_used": Need(duties=frozenset({EXECUTE})),
}
"""On a connection that it has opened to a startd."""

SCHEDD_TO_AGENT: Final[Needs] = {
    "schedd.ask_turn": _by_birth,
    "schedd.end_turn": _by_birth,
    "schedd.transfer_report": _by_birth,
}
"""On the socket pair that it shares with a file agent."""

STARTD: Final[Needs] = {
    **EVERY_DAEMON,
    "collector.query": _read,
    "startd.match_made": _from_negotiator,
    "startd.request_claim": _from_access_point,  # the first to use a claim id is its holder; here and below
    "startd.activate_claim": _from_access_point,
    "startd.deactivate_claim": _from_access_point,
    "startd.release_claim": _from_access_point,
    "startd.keep_alive": _from_access_point,
    "startd.wake_starter": _from_access_point,
    "startd.suspend_claim": _from_access_point,
    "startd.continue_claim": _from_access_point,
    "startd.reconnect_claim": _from_access_point,
    "startd.coalesce_claims": _from_access_point,
    "startd.drain": _administrator,
    "startd.cancel_drain": _administrator,
    "startd.vacate": _administrator,
    "startd.update_machine_ad": _administrator,
}

STARTD_TO_STARTER: Final[Needs] = {
    "startd.job_info": _by_birth,
    "startd.may_go_on": _by_birth,
    "startd.may_rest": _by_birth,
    "startd.serve_homes": _by_birth,
    "startd.starter_awake": _by_birth,
    "startd.engine_trouble": _by_birth,
    "startd.vm_start": _by_birth,
    "startd.image_trouble": _by_birth,
    "startd.activation_over": _by_birth,
}
"""On the socket pair that it shares with a starter."""

STARTER: Final[Needs] = {
    "starter.run_job": _by_birth,
    "starter.meet_schedd": _by_birth,
    "starter.know_slot": _by_birth,
    "starter.stop_job": _by_birth,
    "starter.suspend_job": _by_birth,
    "starter.continue_job": _by_birth,
    "starter.checkpoint_job": _by_birth,
    "starter.device_use": _by_birth,
    "starter.wake_up": _by_birth,
    "starter.leave": _by_birth,
}
"""On the socket pair that it shares with its startd."""

STARTER_TO_SCHEDD: Final[Needs] = {
    "live.tail": Need(duties=frozenset({SUBMIT})),
    "live.open_shell": Need(duties=frozenset({SUBMIT})),
    "live.shell_input": Need(duties=frozenset({SUBMIT})),
    "live.resize_shell": Need(duties=frozenset({SUBMIT})),
    "live.run_on_node": Need(duties=frozenset({SUBMIT})),
}
"""On the connection that it has opened to its claim's schedd."""

STARTER_TO_AGENT: Final[Needs] = {}
"""On the connection that it has opened to a file agent."""

AGENT: Final[Needs] = {
    "agent.fetch_input": _by_ticket,
    "agent.input_taken": _by_ticket,
    "agent.push_output": _by_ticket,
    "agent.output_stored": _by_ticket,
    "agent.write_stream": _by_ticket,
    "agent.read_stream": _by_ticket,
    "agent.remote_io": _by_ticket,
    "agent.tree_io": _by_ticket,
    "agent.sign_urls": _by_ticket,
}
"""On its socket: starters, and tools that spool."""

AGENT_TO_SCHEDD: Final[Needs] = {
    "agent.append_events": _by_birth,
    "agent.open_transfer": _by_birth,
    "agent.close_transfer": _by_birth,
    "agent.turn_given": _by_birth,
    "agent.turn_taken_back": _by_birth,
    "agent.clean_checkpoints": _by_birth,
    "agent.is_up_to_date": _by_birth,
}
"""On the socket pair that it shares with its schedd."""

DEFRAG: Final[Needs] = EVERY_DAEMON
"""What it asks of startds takes ADMINISTRATOR there, which a host of the duty central has."""

ROOSTER: Final[Needs] = EVERY_DAEMON
"""It asks the collector for ads, which takes READ: it may be on any host of the pool, and near those that it wakes."""

SIDES: Final[Mapping[str, Needs]] = {
    "master": MASTER,
    "collector": COLLECTOR,
    "negotiator": NEGOTIATOR,
    "schedd": SCHEDD,
    "schedd, to the negotiator": SCHEDD_TO_NEGOTIATOR,
    "schedd, to a startd": SCHEDD_TO_STARTD,
    "schedd, to a file agent": SCHEDD_TO_AGENT,
    "startd": STARTD,
    "startd, to a starter": STARTD_TO_STARTER,
    "starter": STARTER,
    "starter, to the schedd": STARTER_TO_SCHEDD,
    "file agent": AGENT,
    "defrag": DEFRAG,
    "rooster": ROOSTER,
    "file agent, to the schedd": AGENT_TO_SCHEDD,
}
"""Every table, by who answers and, where it is not the port that everybody reaches, on which connection."""
