"""Jobs' files between this machine and an access point's spool: what condor_submit -spool and condor_transfer_data do.

The bytes go straight to and from the user's file agent, with a ticket that the schedd has given for these jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from minipool.client.fetched_places import Places
from minipool.client.job_ids import of_ad
from pool.base.errors import PeerError, UserError
from pool.base.ids import JobId
from pool.files.spool import fetched_to, spooled_items
from pool.files.transfer import check_names
from protocol.files.blocking_files import receive_files, send_files
from protocol.files.file_list import FileTrouble, with_small, write_small
from protocol.files.gather import gather
from protocol.files.placement import Placement
from protocol.messages.agent import FetchInput, FileEntry, InputFiles, OutputStored, PushOutput
from protocol.messages.schedd import CloseSpool, FetchSpool, OpenSpool, Selection, SpoolFetched
from protocol.rpc.blocking import BlockingPeer, connect
from protocol.wire.ad_table import unpack_ads

if TYPE_CHECKING:
    from minipool.client.session import Session
    from pool.classad import ClassAd

JOBS_AT_ONCE: Final = 200
STORED_S: Final = 600.0


def spool_input(session: Session, schedd: BlockingPeer, cluster: int, ads: Iterable[ClassAd]) -> None:
    """Send the input of a cluster's jobs, and let them run; UserError when a file cannot be read, and they are gone."""
    # One ticket for many jobs, and not for all: the schedd notes what each has been given.
    batch: list[tuple[JobId, ClassAd]] = []
    for proc, ad in enumerate(ads):
        batch.append((JobId(cluster, proc), ad.flat()))
        if len(batch) == JOBS_AT_ONCE:
            _spool_some(session, schedd, batch)
            batch = []
    if batch:
        _spool_some(session, schedd, batch)


def _spool_some(session: Session, schedd: BlockingPeer, jobs: Sequence[tuple[JobId, ClassAd]]) -> None:
    ids = [id for id, _ in jobs]
    opened = schedd.call(OpenSpool(jobs=ids), timeout=STORED_S)
    try:
        with _agent(session, opened.address, opened.ticket) as agent:
            for id, ad in jobs:
                _send(agent, id, ad)
    except (PeerError, UserError, OSError) as error:
        schedd.call(CloseSpool(jobs=ids, failed=str(error)), timeout=STORED_S)
        raise UserError(f"Failed to spool job files: {error}") from None
    schedd.call(CloseSpool(jobs=ids), timeout=STORED_S)


def _send(agent: BlockingPeer, id: JobId, ad: ClassAd) -> None:
    try:
        gathered = gather(spooled_items(ad))
    except OSError as error:
        raise UserError(f"job {id}: {error.filename}: {error.strerror}") from None

    def open_file(entry: FileEntry) -> int:
        return os.open(gathered.sources[entry.name], os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)

    entries = with_small(gathered.entries, open_file)
    name = f"spool-{id}"
    agent.call(PushOutput(activation=name, files=entries))
    trouble = send_files(agent, entries, open_file)
    stored = agent.call(OutputStored(activation=name), timeout=STORED_S)
    if trouble is not None or stored.trouble is not None:
        raise UserError(f"job {id}: {trouble or (stored.trouble and stored.trouble.reason)}")


def fetch_output(session: Session, schedd: BlockingPeer, select: Selection) -> int:
    """Bring the output of the selected spooled jobs to where it belongs on this machine; how many jobs had any here."""
    answer = schedd.call(FetchSpool(select=select), timeout=STORED_S)
    ads = [ad for chunk in answer.ads for ad in unpack_ads(chunk)]
    if not ads:
        return 0
    done: list[JobId] = []
    try:
        with _agent(session, answer.address, answer.ticket) as agent:
            for ad in ads:
                id = of_ad(ad)
                _fetch(agent, id, ad)
                done.append(id)
    finally:
        if done:
            schedd.call(SpoolFetched(jobs=done), timeout=STORED_S)
    return len(ads)


def _fetch(agent: BlockingPeer, id: JobId, ad: ClassAd) -> None:
    name = f"spool-{id}"
    answer: InputFiles = agent.call(FetchInput(activation=name), timeout=STORED_S)
    if answer.trouble is not None:
        raise UserError(f"job {id}: {answer.trouble.reason}")
    check_names(entry.name for entry in answer.files)
    places = Places(fetched_to(ad), os.getcwd(), os.path.expanduser("~"))
    placement = Placement(places.where, f"{name}.part")
    try:
        placement.plan(answer.files)
        trouble = _place(agent, placement, answer.files)
        if trouble is None:
            placement.finish()
    except FileTrouble as error:
        trouble = error
    except UserError as error:
        raise UserError(f"job {id}: {error}") from None
    finally:
        placement.abandon()
    if trouble is not None:
        raise UserError(f"job {id}: {trouble}")


def _place(agent: BlockingPeer, placement: Placement, files: list[FileEntry]) -> FileTrouble | None:
    trouble: FileTrouble | None = None
    for entry in files:
        if entry.kind == "dir":
            placement.directory(entry)
        elif entry.kind == "link":
            placement.link(entry)
    trouble = write_small(files, placement.open) or trouble
    return receive_files(agent, files, placement.open) or trouble


def _agent(session: Session, address: str, ticket: str) -> BlockingPeer:
    return connect(session.beside_its_collector(address), session.security.with_ticket(ticket))
