"""Making the pool's keys: its CA, its signing key for tokens, and one certificate per host.

    KEYS/ca.key ca.pem        the pool's CA; the key stays on the central manager
    KEYS/passwords.d/POOL     the signing key of tokens
    KEYS/host.key host.pem    this host's certificate: CN the host, OU its duties (central, submit, execute), O the pool
    KEYS/revoked.crl          the newest signed list of certificates that were revoked; RUN/revoked has their numbers
    KEYS/hosts.sqlite         which certificates there are, on the central manager (`pool.hosts.register`)

Files with secrets have mode 0600 in a directory of mode 0700. Each file appears whole or not at all; of two processes
that make the same keys at once, one wins and both go on with its. Where HTCondor has the same, the names are its own
(`passwords.d`: "Token Authentication" of its manual page admin-manual/security).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pool.base.errors import UserError
from pool.hosts.register import renewal_due, transaction
from protocol.security.certify import (
    DUTIES,
    HOST_LIFETIME_S,
    Signed,
    ca_certificate,
    issued_as,
    load_key,
    make_request,
    read_revocation_list,
    renew_host,
    sign_host,
)
from protocol.security.credentials import (
    CA_KEY_FILE,
    HOST_CERTIFICATE_FILE,
    HOST_KEY_FILE,
    SIGNING_KEY_DIRECTORY,
)
from protocol.security.settings import CA_FILE

SIGNING_KEY_BYTES: Final = 64
REGISTER_FILE: Final = "hosts.sqlite"
REVOCATION_FILE: Final = "revoked.crl"


def make_pool_keys(
    directory: str | os.PathLike[str],
    *,
    host: str,
    trust_domain: str,
    duties: Iterable[str] = DUTIES,
    names: Sequence[str] = (),
    lifetime_s: float = HOST_LIFETIME_S,
    publish_ca: str | os.PathLike[str] | None = None,
) -> None:
    """Make what is missing of a central manager's keys: CA, signing key, its own host certificate, or a newer one.

    `names` are further names and addresses of the host. `publish_ca` is a path where everybody can read the CA's
    certificate.
    """
    keys = _directory(directory)
    make_ca(keys, trust_domain)
    _make_signing_key(keys)
    if not (keys / HOST_CERTIFICATE_FILE).exists():
        pem = _once(keys / HOST_KEY_FILE, _new_key, 0o600)
        request = make_request(pem, host)
        signed = sign_host(
            keys, request, host=host, trust_domain=trust_domain, duties=duties, names=names, lifetime_s=lifetime_s
        )
        _note(keys, signed)
        _once(keys / HOST_CERTIFICATE_FILE, lambda: signed.pem, 0o644)
    renew_own(keys, lifetime_s=lifetime_s)
    if publish_ca is not None:
        _replace(Path(publish_ca), (keys / CA_FILE).read_bytes(), 0o644)


def make_ca(keys: str | os.PathLike[str], trust_domain: str) -> None:
    """Make the CA's key and certificate where they are missing."""
    directory = _directory(keys)
    key = load_key(_once(directory / CA_KEY_FILE, _new_key, 0o600))
    pem = _once(directory / CA_FILE, lambda: ca_certificate(key, trust_domain), 0o644)
    try:
        is_ours = x509.load_pem_x509_certificate(pem).public_key() == key.public_key()
    except ValueError:
        is_ours = False
    if not is_ours:
        raise UserError(
            f"{directory / CA_FILE} is not the certificate of {CA_KEY_FILE} beside it: "
            f"copy {CA_FILE} back from a backup, or from the keys directory of a host that has joined"
        )


def host_key(keys: str | os.PathLike[str]) -> bytes:
    """The key (PEM) of a host that is to join: the one that it has, or a new one, which is not stored yet."""
    try:
        return (Path(keys) / HOST_KEY_FILE).read_bytes()
    except FileNotFoundError:
        return _new_key()


def request_certificate(key: bytes, host: str) -> str:
    """A joining host's certificate request (PEM) for the central manager."""
    return make_request(key, host).decode("ascii")


def keep_host_key(keys: str | os.PathLike[str], key: bytes) -> None:
    """Store a key that may have been signed."""
    _once(_directory(keys) / HOST_KEY_FILE, lambda: key, 0o600)


def install_host_certificate(keys: str | os.PathLike[str], certificate: str, ca: str, *, key: bytes) -> None:
    """Store a host's key and what the central manager answered; UserError when that is not for this key."""
    try:
        signed = x509.load_pem_x509_certificate(certificate.encode())
        issuer = x509.load_pem_x509_certificate(ca.encode())
        signed.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise UserError("the answer holds no certificate that its CA signed") from None
    if signed.public_key() != load_key(key).public_key():
        raise UserError("the certificate is for another host's key")
    keep_host_key(keys, key)
    directory = Path(keys)
    _replace(directory / CA_FILE, ca.encode(), 0o644)
    _replace(directory / HOST_CERTIFICATE_FILE, certificate.encode(), 0o644)


def renew_own(keys: str | os.PathLike[str], *, lifetime_s: float = HOST_LIFETIME_S) -> None:
    """Make the CA's host a newer certificate when it is time."""
    directory = Path(keys)
    old = x509.load_pem_x509_certificate((directory / HOST_CERTIFICATE_FILE).read_bytes())
    certificate = old.public_bytes(serialization.Encoding.DER)
    if time.time() < renewal_due(issued_as(certificate), lifetime_s):
        return
    signed = renew_host(directory, certificate, lifetime_s=lifetime_s)
    _note(directory, signed)
    _replace(directory / HOST_CERTIFICATE_FILE, signed.pem, 0o644)


def install_revocation_list(keys: str | os.PathLike[str], pem: bytes, published: str | os.PathLike[str]) -> None:
    """Store a list, and publish its serial numbers for this host's processes; UserError when there is a newer one."""
    directory = Path(keys)
    ca = (directory / CA_FILE).read_bytes()
    number, serials = read_revocation_list(pem, ca)
    held = directory / REVOCATION_FILE
    if held.exists() and number < (newer := read_revocation_list(held.read_bytes(), ca)[0]):
        raise UserError(f"revocation list {number} is older than {newer}, which is here")
    _replace(held, pem, 0o644)
    _replace(Path(published), "".join(f"{serial}\n" for serial in serials).encode("ascii"), 0o644)


def _note(keys: Path, signed: Signed) -> None:
    with transaction(keys / REGISTER_FILE) as register:
        register.record(signed.issued)


def _make_signing_key(keys: Path) -> None:
    directory = keys / SIGNING_KEY_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    _once(directory / "POOL", lambda: os.urandom(SIGNING_KEY_BYTES), 0o600)


def _new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# Files that appear whole or not at all.


def _directory(path: str | os.PathLike[str]) -> Path:
    directory = Path(path)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _once(path: Path, make: Callable[[], bytes], mode: int) -> bytes:
    """The file's content, made when it does not exist; whoever links it first has made it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    temporary = _write(path, make(), mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return path.read_bytes()


def _replace(path: Path, data: bytes, mode: int) -> None:
    os.replace(_write(path, data, mode), path)


def _write(path: Path, data: bytes, mode: int) -> Path:
    """A new file beside `path`, on disk before it gets its name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        # Whatever the umask is.
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return temporary
