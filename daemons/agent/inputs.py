"""Input on its way: a starter asks with the ticket of its activation; a tool empties a spool directory in the same way.

The answer is the list; what is small is in it, and the bytes of the other files follow it. What moves much waits for a
turn first.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable

import trio

from daemons.agent.activations import OpenActivations
from daemons.agent.trouble import input_trouble, over
from daemons.agent.trusted_path import NotOpened
from daemons.agent.turns import AgentTurns, TurnTransfer
from daemons.base.faults import fault
from pool.base.errors import PeerError, UserError
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.files.file_list import regular, still_to_move, with_small
from protocol.files.file_stream import acceptable, send_files
from protocol.messages.agent import (
    FetchInput,
    FileEntry,
    InputFiles,
    InputTaken,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

log = logging.getLogger("agent.inputs")


class Inputs:
    """Sends what jobs need."""

    def __init__(self, activations: OpenActivations, turns: AgentTurns, nursery: trio.Nursery, *, host: str) -> None:
        self._activations, self._turns, self._nursery, self._host = activations, turns, nursery, host

    def answers(self) -> list[Answer]:
        """What starters ask for, and say of it."""
        return [answer(FetchInput, self.fetch, stops_with_caller=True), answer(InputTaken, self._turns.taken)]

    async def fetch(self, peer: Peer, request: FetchInput) -> InputFiles:
        """List the input; its bytes follow the answer (nothing is awaited between their start and its end)."""
        activation = self._activations.of(peer, request.activation)
        try:
            if activation.is_quickly_gathered:
                gathered, restored = activation.gather()
            else:
                gathered, restored = await trio.to_thread.run_sync(activation.gather)
        except UserError as error:
            return InputFiles(files=[], trouble=input_trouble(self._host, str(error), errno.EINVAL))
        except NotOpened as error:
            return InputFiles(files=[], trouble=input_trouble(self._host, error.said, error.errno or errno.EPERM))
        except OSError as error:
            number = error.errno or errno.EIO
            said = f"reading from file {error.filename}: (errno {number}) {os.strerror(number)}"
            return InputFiles(files=[], trouble=input_trouble(self._host, said, number))
        if (excess := over(activation.input_max_mb, gathered.entries, "upload")) is not None:
            trouble = input_trouble(self._host, excess, 0, HoldCode.MAX_TRANSFER_INPUT_SIZE_EXCEEDED)
            return InputFiles(files=[], trouble=trouble)
        sources, bounds = gathered.sources, activation.bounds

        def open_file(entry: FileEntry) -> int:
            # Looked at again for each file: between the list and the opening somebody may have put a link there.
            fault("agent.input_file")
            return os.open(bounds.real(sources[entry.name]), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)

        entries = with_small(gathered.entries, open_file)
        have = acceptable({one.name: one for one in request.have}, entries) if request.have else {}
        if regular(entries):
            size = sum(entry.size - start for entry, start in still_to_move(entries, have))
            transfer = await self._turns.take(peer, request.activation, upload=True, size=size)
            hands_over = peer.bulk.reaches(request.process)
            # The answer goes out when this handler returns; the bytes must come after it, on the same connection.
            self._nursery.start_soon(self._send, transfer, entries, open_file, have, hands_over)
        return InputFiles(files=entries, have=have, restored=restored)

    async def _send(
        self,
        transfer: TurnTransfer,
        entries: list[FileEntry],
        open_file: Callable[[FileEntry], int],
        have: dict[str, int],
        hands_over: bool,
    ) -> None:
        peer = transfer.peer
        try:
            trouble = await send_files(peer, entries, open_file, transfer.run_sync, have=have, hands_over=hands_over)
            if hands_over:
                await transfer.taken()
        except PeerError as error:
            log.warning("input for %s: %s", peer, error)
        except Exception as error:
            # The nursery is the agent's own, which serves other jobs too: what nobody foresaw ends this transfer alone.
            log.exception("input for %s", peer)
            peer.abort(f"the file agent failed: {error!r}")
        else:
            if trouble is not None:
                log.warning("input for %s: %s", peer, trouble)
        finally:
            self._turns.give_back(transfer)
