"""Making the pool's keys: its CA, its signing key for tokens, and one certificate per host.

    KEYS/ca.key ca.pem        the pool's CA; the key stays on the central manager
    KEYS/passwords.d/POOL     the signing key of tokens
    KEYS/host.key host.pem    this host's certificate: CN the host, OU its duties (central, submit, execute), O the pool

Files with secrets have mode 0600 in a directory of mode 0700. Each file appears whole or not at all; of two processes
that make the same keys at once, one wins and both go on with its.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pool.errors import UserError
from pool.hints import Callable, Final, Iterable, Sequence
from protocol.security import CA_FILE, CA_KEY_FILE, HOST_CERTIFICATE_FILE, HOST_KEY_FILE, SIGNING_KEY_DIRECTORY

DUTIES: Final = ("central", "submit", "execute")
SIGNING_KEY_BYTES: Final = 64
_CA_DAYS: Final = 3650
_HOST_DAYS: Final = 3650
_BACKDATED: Final = datetime.timedelta(days=1)  # hosts whose clocks are behind must accept it too


def make_pool_keys(
    directory: str | os.PathLike[str],
    *,
    host: str,
    trust_domain: str,
    duties: Iterable[str] = DUTIES,
    names: Sequence[str] = (),
    publish_ca: str | os.PathLike[str] | None = None,
) -> None:
    """Make what is missing of a central manager's keys: CA, signing key, its own host certificate.

    `names` are further names and addresses of the host. `publish_ca` is a path where everybody can read the CA's
    certificate.
    """
    keys = _directory(directory)
    make_ca(keys, trust_domain)
    _make_signing_key(keys)
    if not (keys / HOST_CERTIFICATE_FILE).exists():
        pem = _once(keys / HOST_KEY_FILE, _new_key, 0o600)
        request = make_request(pem, host)
        certificate = sign_host(keys, request, host=host, trust_domain=trust_domain, duties=duties, names=names)
        _once(keys / HOST_CERTIFICATE_FILE, lambda: certificate, 0o644)
    if publish_ca is not None:
        _replace(Path(publish_ca), (keys / CA_FILE).read_bytes(), 0o644)


def make_ca(keys: str | os.PathLike[str], trust_domain: str) -> None:
    """Make the CA's key and certificate where they are missing."""
    directory = _directory(keys)
    key = _load_key(_once(directory / CA_KEY_FILE, _new_key, 0o600))
    _once(directory / CA_FILE, lambda: _ca_certificate(key, trust_domain), 0o644)


def make_host_key(keys: str | os.PathLike[str], host: str) -> str:
    """A joining host's key, made where it is missing, and its certificate request (PEM) for the central manager."""
    pem = _once(_directory(keys) / HOST_KEY_FILE, _new_key, 0o600)
    return make_request(pem, host).decode("ascii")


def install_host_certificate(keys: str | os.PathLike[str], certificate: str, ca: str) -> None:
    """Store what the central manager answered to a joining host; UserError when it is not for this host's key."""
    directory = _directory(keys)
    try:
        signed = x509.load_pem_x509_certificate(certificate.encode())
        issuer = x509.load_pem_x509_certificate(ca.encode())
        signed.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise UserError("the answer holds no certificate that its CA signed") from None
    key = _load_key((directory / HOST_KEY_FILE).read_bytes())
    if signed.public_key() != key.public_key():
        raise UserError("the certificate is for another host's key")
    _replace(directory / CA_FILE, ca.encode(), 0o644)
    _replace(directory / HOST_CERTIFICATE_FILE, certificate.encode(), 0o644)


def make_request(key_pem: bytes, host: str) -> bytes:
    """A certificate request (PEM) for a host's key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([_name(NameOID.COMMON_NAME, host)]))
    return builder.sign(_load_key(key_pem), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def sign_host(
    keys: str | os.PathLike[str],
    request: bytes | str,
    *,
    host: str,
    trust_domain: str,
    duties: Iterable[str],
    names: Sequence[str] = (),
) -> bytes:
    """A certificate (PEM) for a host. Of the request only the key counts: name and duties are the caller's word."""
    duties = tuple(duties)
    if unknown := set(duties) - set(DUTIES):
        raise UserError(f"{', '.join(sorted(unknown))} is no duty of a host", expected=" or ".join(DUTIES))
    ca_key, ca = _load_ca(Path(keys))
    try:
        wanted = x509.load_pem_x509_csr(request.encode() if isinstance(request, str) else request)
    except ValueError:
        raise UserError("this is no certificate request", expected="PEM") from None
    key = wanted.public_key()
    if not wanted.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise UserError("the certificate request does not hold", expected="an elliptic curve key's own signature")
    subject = x509.Name(
        [
            _name(NameOID.ORGANIZATION_NAME, trust_domain),
            *(_name(NameOID.ORGANIZATIONAL_UNIT_NAME, duty) for duty in duties),
            _name(NameOID.COMMON_NAME, host),
        ]
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(subject, ca.subject, key, _HOST_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(_alternatives(host, names)), critical=False)
        .add_extension(usage, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _alternatives(host: str, names: Sequence[str]) -> list[x509.GeneralName]:
    """The host's names: whole, and short; and what else it is known as."""
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys([host, host.partition(".")[0], *names]):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if name and name.isascii():
                found.append(x509.DNSName(name))
    return found


def _make_signing_key(keys: Path) -> None:
    directory = keys / SIGNING_KEY_DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    _once(directory / "POOL", lambda: os.urandom(SIGNING_KEY_BYTES), 0o600)


def _ca_certificate(key: ec.EllipticCurvePrivateKey, trust_domain: str) -> bytes:
    subject = x509.Name(
        [_name(NameOID.ORGANIZATION_NAME, trust_domain), _name(NameOID.COMMON_NAME, f"{trust_domain[:55]} pool CA")]
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(subject, subject, key.public_key(), _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(kind: x509.ObjectIdentifier, text: str) -> x509.NameAttribute[str]:
    if not 0 < len(text) <= 64:
        raise UserError(f"{text[:80]!r} cannot stand in a certificate", expected="1 to 64 characters")
    return x509.NameAttribute(kind, text)


def _new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError("the key is not an elliptic curve key")
    return key


def _load_ca(keys: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        return _load_key((keys / CA_KEY_FILE).read_bytes()), x509.load_pem_x509_certificate(
            (keys / CA_FILE).read_bytes()
        )
    except OSError as error:
        raise UserError(f"this host cannot sign certificates: {error.filename}: {error.strerror}") from None


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
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return temporary
