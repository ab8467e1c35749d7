"""Signs URLs of object stores for a starter, with the keys that its job's ad names: they never leave this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from daemons.agent.bounds import JobOf
from daemons.agent.trusted_path import real
from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.files import s3
from pool.files.transfer import Destinations, url_inputs
from protocol.messages.agent import SignedUrls, SignUrls
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

KEY_BYTES_MAX: Final = 64 * 1024
URLS_MAX: Final = 10_000


class Signer:
    """Answers starters. `job_of`: the job that a starter with its ticket runs, and where its files may be."""

    def __init__(self, job_of: JobOf) -> None:
        self._job_of = job_of

    def answers(self) -> list[Answer]:
        """What starters ask for."""
        return [answer(SignUrls, self.sign)]

    def sign(self, peer: Peer, request: SignUrls) -> SignedUrls:
        """Sign what this job reads or writes."""
        job, _ = self._job_of(peer, request.activation)
        if len(request.urls) > URLS_MAX:
            raise UserError(f"more than {URLS_MAX} URLs at a time")
        # All are judged before the first is signed: a request is granted whole or not at all.
        allowed = _allowed(job, upload=request.upload)
        for url in request.urls:
            if not allowed(url):
                raise UserError(f"{url} is no URL of this job")
        keys, verb, now = keys_of(job), "PUT" if request.upload else "GET", time.time()
        return SignedUrls(urls=[s3.signed(url, keys, verb, now) for url in request.urls])


def _allowed(job: ClassAd, *, upload: bool) -> Callable[[str], bool]:
    """Which URLs are the job's: a machine gets no more out of the keys than its job has asked for."""
    # With the slash, so that s3://bucket/a does not let through s3://bucket/abc.
    checkpoints = f"{(job.eval_str('CheckpointDestination') or '').rstrip('/')}/"
    if not upload:
        inputs = {url for url, _ in url_inputs(job)}
        return lambda url: url in inputs or (len(checkpoints) > 1 and url.startswith(checkpoints))
    targets = Destinations(job).url_roots()
    return lambda url: (
        (len(checkpoints) > 1 and url.startswith(checkpoints))
        or any(url == target or url.startswith(f"{target.rstrip('/')}/") for target in targets)
    )


def keys_of(job: ClassAd) -> s3.Keys:
    """The keys, from the files that the job names."""
    return s3.Keys(
        _read(job, "EC2AccessKeyId", "access key"),
        _read(job, "EC2SecretAccessKey", "secret key"),
        _read(job, "EC2SessionToken", "session token") if job.eval_str("EC2SessionToken") else "",
        job.eval_str("AWSRegion") or "",
    )


def _read(job: ClassAd, name: str, what: str) -> str:
    path = job.eval_str(name)
    if not path:
        raise UserError(f"no {what} file is named for s3 and gs URLs")
    try:
        with open(real(os.path.join(job.eval_str("Iwd") or "/", path)), encoding="utf-8") as file:
            return file.read(KEY_BYTES_MAX).strip()
    except (OSError, ValueError) as error:
        raise UserError(f"the {what} file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
