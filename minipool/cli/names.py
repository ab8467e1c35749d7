"""Which module does what: every `condor_*` program, and every verb of `pool`, which are mostly the same."""

from __future__ import annotations

from typing import Final

TOOLS: Final[dict[str, tuple[str, str]]] = {
    "submit": ("submit", "queue jobs from a submit description"),
    "run": ("run_command", "run a shell command as a job and wait for it"),
    "q": ("q", "show jobs in the queue"),
    "status": ("status", "show machines and daemons of the pool"),
    "history": ("history", "show jobs that left the queue"),
    "rm": ("act", "remove jobs"),
    "hold": ("act", "put jobs on hold"),
    "release": ("act", "release held jobs"),
    "suspend": ("act", "suspend running jobs"),
    "continue": ("act", "continue suspended jobs"),
    "vacate_job": ("act", "make running jobs leave their machines"),
    "now": ("now", "run a job at once, in place of others"),
    "drain": ("drain", "empty a machine of its jobs"),
    "vacate": ("vacate", "make the jobs on machines leave"),
    "watch_q": ("watch", "watch jobs run"),
    "tail": ("tail", "show the last bytes of a running job's output"),
    "ssh_to_job": ("ssh_to_job", "open a shell in a running job"),
    "chirp": ("chirp", "from a running job: its owner's files, its ad, its log"),
    "wait": ("wait", "wait for jobs by their event log"),
    "userlog": ("userlog", "summarize event logs"),
    "check_userlogs": ("check_userlogs", "check event logs for what cannot be"),
    "transfer_data": ("transfer_data", "fetch the output of spooled jobs"),
    "prio": ("prio", "change the priority of jobs"),
    "qedit": ("qedit", "change attributes of jobs"),
    "userprio": ("userprio", "show and set the priorities of users"),
    "config_val": ("config_val", "show the configuration"),
    "on": ("admin", "start daemons"),
    "off": ("admin", "stop daemons"),
    "restart": ("admin", "restart daemons"),
    "reconfig": ("admin", "make daemons read the configuration again"),
    "reschedule": ("admin", "ask for a match cycle now"),
    "who": ("who", "show the daemons and jobs of this host"),
    "ping": ("ping", "show who a daemon takes you for"),
    "token_create": ("tokens", "make a token"),
    "token_list": ("tokens", "list your tokens"),
    "update_machine_ad": ("update_machine_ad", "change attributes in the ads of a machine"),
    "gpu_discovery": ("gpu_discovery", "show the GPUs of this machine"),
    "gpu_utilization": ("gpu_utilization", "say how much the GPUs of this machine are used"),
    "findhost": ("findhost", "find the machines that can be spared"),
    "advertise": ("advertise", "give ads to a collector, or take them away"),
    "fetchlog": ("fetchlog", "print a log of another host"),
    "gather_info": ("gather_info", "gather facts for whoever is asked for help"),
    "qsub": ("qsub", "submit a job that is described for PBS or SGE"),
    "version": ("version", "show the version"),
}
"""verb -> (module, what it is for); `condor_VERB` and `pool VERB` are the same program."""

POOL_VERBS: Final[dict[str, tuple[str, str]]] = {
    "up": ("up", "start a pool on this host"),
    "down": ("down", "stop the pool"),
    "watch": ("watch", "watch jobs run"),
    "why": ("why", "say in plain words why a job does not run"),
    "token": ("tokens", "make a token, also for a host that joins"),
    "join": ("join", "make this host a part of a pool"),
    "cron": ("cron", "say when crontab fields run next"),
    "queue": ("queue", "back up, restore or check the job queue"),
    "eventlog": ("eventlog", "job event logs as JSON, also for other programs"),
    "classad": ("classad", "the ClassAd language: for other programs, and between forms"),
    "completion": ("completion", "a script that completes commands and options in a shell"),
    "classad_eval": ("classad_eval", "evaluate ClassAd expressions"),
}
"""Verbs that only `pool` has."""
