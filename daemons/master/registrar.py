"""The central manager's registrar: which hosts there are, what certificates they have, and which were revoked.

The register is a file in KEYS (`pool.hosts.register`). It is opened for each decision, in a thread, since what it says
must be on disk before anybody acts on it; decisions are rare.
"""

from __future__ import annotations

from pathlib import Path

import trio

from daemons.locate import central_names
from daemons.run import DaemonStart
from pool.hosts.register import Word, transaction


class Registrar:
    """Signs for hosts, and keeps the register."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._one_at_a_time = trio.Lock()

    async def admit(self, word: Word, host: str, csr: str) -> str:
        """A certificate (PEM) for a host that joins with this word."""

        def sign() -> str:
            from protocol import certify

            key = certify.key_of_request(csr)
            with transaction(self._path) as register:
                register.admit(word, host, key, reserved=reserved, now=now)
                signed = certify.sign_host(
                    self._keys, csr, host=host, trust_domain=domain, duties=[word.duty], lifetime_s=lifetime_s
                )
                register.record(signed.issued)
            return signed.pem.decode("ascii")

        start = self._start
        reserved, domain, now = central_names(start.config), start.security.trust_domain, start.world.wall()
        lifetime_s = start.config.seconds("SEC_HOST_CERTIFICATE_LIFETIME")
        async with self._one_at_a_time:
            return await start.world.threads.run_sync(sign)

    @property
    def _keys(self) -> Path:
        return Path(self._start.config.path("KEYS"))

    @property
    def _path(self) -> Path:
        return self._keys / "hosts.sqlite"
