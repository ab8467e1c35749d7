"""The master as a process: its directories, its lock, and on a central manager the pool's keys; then its event loop."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daemons.base.layout import UMASK, make_directories, publish
from daemons.base.open_files import give_back
from daemons.daemon_core.entry import EXIT_BAD_CONFIG, run_process
from daemons.daemon_core.locate import runs_here
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.source import ConfigSource
from daemons.master.port import host_names
from pool.base.errors import ConfigError, PoolError
from pool.config import Config
from protocol.security.credentials import CA_KEY_FILE, HOST_CERTIFICATE_FILE

EXIT_REFUSED: Final = 1


class AlreadyRunning(PoolError):
    """Another master has these directories."""


def run_master(source: ConfigSource) -> int:
    """Run a host of a pool in the foreground until it is stopped; the exit status."""
    os.umask(UMASK)
    try:
        config = source.load("MASTER", dict(os.environ))
        make_directories(config)
        with locked(Path(config.path("RUN"))):
            Path(config.path("RUN"), "ready").unlink(missing_ok=True)  # a killed master's
            if runs_here(config, "collector") and not has_joined(config):
                make_keys(config)
            publish_ca(config)
            publish_revoked(config)
            ended: list[DaemonStart] = []
            status = run_process("master", source, at_end=ended.append)
        if ended and ended[0].successor:
            become(ended[0].successor)
        return status
    except ConfigError as error:
        print(f"master: {error}", file=sys.stderr)
        return EXIT_BAD_CONFIG
    except (PoolError, OSError) as error:
        print(f"master: {error}", file=sys.stderr)
        return EXIT_REFUSED


def has_joined(config: Config) -> bool:
    """Whether this host's collector has joined another one's pool: then that one keeps the CA and the register."""
    keys = Path(config.path("KEYS"))
    others = len(config.list("COLLECTOR_HOST")) > 1 or bool(config.list("CONDOR_VIEW_HOST"))
    return others and (keys / HOST_CERTIFICATE_FILE).exists() and not (keys / CA_KEY_FILE).exists()


def become(program: str) -> None:
    """Let a program take this process's place (`condor_set_shutdown`); returns only when it cannot be executed."""
    sys.stdout.flush()
    sys.stderr.flush()
    give_back()
    try:
        os.execv(program, [program])
    except OSError as error:
        print(f"master: {program}: {error.strerror}", file=sys.stderr)


def make_keys(config: Config) -> None:
    """The first start of a central manager makes the pool's CA, signing key and host certificate."""
    from protocol.security.credentials import Security

    security = Security.from_config(config, "MASTER")

    def make() -> None:
        from protocol.security import keys

        keys.make_pool_keys(
            config.path("KEYS"),
            host=config.str("FULL_HOSTNAME"),
            trust_domain=security.trust_domain,
            names=host_names(config),
            lifetime_s=config.seconds("SEC_HOST_CERTIFICATE_LIFETIME"),
        )

    in_child(make)


class ChildFailed(PoolError):
    """What a short-lived child could not do."""


def in_child(work: Callable[[], None]) -> None:
    """Do `work` in a child that ends with it: what it imports, and memory that held keys, does not stay here.

    Only for a process without threads. Whatever goes wrong is raised here as ChildFailed, in the child's words.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b""
        try:
            work()
        except BaseException as error:
            said = (str(error) or type(error).__name__).encode()
        finally:
            os.write(writing, said)
            os._exit(1 if said else 0)
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as file:
        said_here = file.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise ChildFailed(said_here or f"a child ended with wait status {status}")


def publish_ca(config: Config) -> None:
    """Put the CA's certificate where every account's tools can read it."""
    from protocol.security.settings import CA_FILE

    try:
        certificate = Path(config.path("KEYS"), CA_FILE).read_text(encoding="ascii")
    except OSError:
        return  # a host that has not joined anything
    publish(Path(config.path("RUN"), CA_FILE), certificate)


def publish_revoked(config: Config) -> None:
    """Put the numbers of revoked certificates where every process of this host reads them."""
    from protocol.security.revoked import REVOKED_FILE

    held = Path(config.path("KEYS"), "revoked.crl")

    def publish() -> None:
        from protocol.security import keys

        published = Path(config.path("RUN"), REVOKED_FILE)
        keys.install_revocation_list(config.path("KEYS"), held.read_bytes(), published)

    if held.exists():
        in_child(publish)


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold RUN/master.pid, which names this process; AlreadyRunning names the one that holds it."""
    path = run / "master.pid"
    descriptor = _lock(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise AlreadyRunning(f"a master (pid {pid}) already runs in {path.parent.parent}") from None
        try:
            # The file that we have locked may be one that its holder has just unlinked, while a third has made a new
            # one.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # its holder has just removed it: take the next one
