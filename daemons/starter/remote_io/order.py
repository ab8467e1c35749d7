"""What a starter and the process that serves its job's files say to each other, in words on a socket of their own.

    server -> starter    {"here": true}                      it has found the door
    starter -> server    {"serve": ServeOrder}               with descriptors: a device for each directory
    server -> starter    {"lacks": [number, errno]}          this directory cannot be served; errno 0: they all can
                         {"begun": true}                     all are mounted: the devices are the server's alone now
    starter -> server    {"settle": true}                    the job's processes have ended: write the rest
    server -> starter    {"settled": errno}                  of what no program was told, 0 for none

When either end closes, all is over: the server ends, and with it the mounts; a starter without server evicts its job.
"""

from __future__ import annotations

from protocol.wire.message import Record


class ServeOrder(Record):
    """What the server has to know of the job."""

    activation: str
    address: str
    """The file agent's."""
    ticket: str
    paths: list[str]
    """The directories; by their numbers the agent knows them."""
    uid: int
    """The job's account's."""
    gid: int
    cache_bytes: int
    log_path: str
