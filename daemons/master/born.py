"""What the master's zygote forks: a daemon. The code of all of them is imported once, before the first fork."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Final

import msgpack

from daemons.daemon_core import warm
from daemons.daemon_core.entry import run_process
from daemons.daemon_core.source import ConfigSource
from daemons.process import first_zygote
from daemons.process.zygote import Birth
from daemons.starter import rehearsal

DAEMONS: Final = ("collector", "negotiator", "schedd", "startd")

LATE: Final = (
    "daemons.starter.born",
    "daemons.schedd.execution.local_job",
    "pool.classad.eval.compile",
    "pool.classad.eval.references",
    "encodings.idna",
)
"""What daemons import only when they need it, and soon do: imported by each, it would be in memory once for each."""

# Imported before the first fork, so that all daemons share one copy in memory.
for _name in (*(f"daemons.{_daemon}.main" for _daemon in (*DAEMONS, "starter", "agent")), *LATE):
    with contextlib.suppress(ImportError):  # whoever starts that daemon will read why in its log
        importlib.import_module(_name)


def warm_up() -> None:
    """What is done once for all daemons and starters."""
    rehearsal.warm_up()
    warm.warm_up()


def child_main(birth: Birth) -> int:
    """Be the daemon that the payload names."""
    os.close(birth.life)  # the channel tells as well when the master is gone
    order = msgpack.unpackb(birth.payload)
    first_zygote.fork_for(order["name"])
    source = ConfigSource.unpacked(order["source"])
    return run_process(
        order["name"],
        source,
        port_address=order["port_address"],
        family=order["family"],
        local_name=order["local_name"],
        control=birth.channel,
    )
