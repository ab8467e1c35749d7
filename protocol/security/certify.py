"""Signing as the pool's CA: certificates of hosts (X.509, RFC 5280), the CA's own, and the list of those revoked.

A host's certificate lives for 90 days (SEC_HOST_CERTIFICATE_LIFETIME), and is renewed at two thirds of that for the
same name, duties and key. What a host asks to be signed (PKCS #10, RFC 2986) gives its key alone: name and duties are
those that the register and the join word allow. HTCondor leaves certificates to the administrator ("SSL Authentication"
of its manual page admin-manual/security); a pool here is its own CA.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pool.base.errors import UserError
from pool.hosts.register import Issued, as_serial
from protocol.security.credentials import CA_KEY_FILE
from protocol.security.settings import CA_FILE

DUTIES: Final = ("central", "submit", "execute")
HOST_LIFETIME_S: Final = 90 * 86400.0
_CA_LIFETIME: Final = datetime.timedelta(days=3650)
_BACKDATED: Final = datetime.timedelta(days=1)  # hosts whose clocks are behind must accept it too


class Signed(NamedTuple):
    """A certificate for a host: as PEM, and what the register notes of it."""

    pem: bytes
    issued: Issued


def sign_host(
    keys: str | os.PathLike[str],
    request: bytes | str,
    *,
    host: str,
    trust_domain: str,
    duties: Iterable[str],
    names: Sequence[str] = (),
    lifetime_s: float = HOST_LIFETIME_S,
) -> Signed:
    """A certificate for a host. Of the request only the key counts: name and duties are the caller's word.

    `names` are for a central manager, which may be reached under many; any other host has its own name alone.
    """
    duties = tuple(duties)
    if unknown := set(duties) - set(DUTIES):
        raise UserError(f"{', '.join(sorted(unknown))} is no duty of a host", expected=" or ".join(DUTIES))
    subject = x509.Name(
        [
            _name(NameOID.ORGANIZATION_NAME, trust_domain),
            *(_name(NameOID.ORGANIZATIONAL_UNIT_NAME, duty) for duty in duties),
            _name(NameOID.COMMON_NAME, host),
        ]
    )
    alternatives = x509.SubjectAlternativeName(_alternatives([host, *names]))
    return _certify(Path(keys), _key_of_request(request), subject, alternatives, lifetime_s)


def renew_host(keys: str | os.PathLike[str], certificate: bytes, *, lifetime_s: float = HOST_LIFETIME_S) -> Signed:
    """A newer certificate (of this one, as DER): of the same host, for the same duties and key.

    Names and addresses beside its own, which earlier versions certified, are left to a central manager alone.
    """
    old = x509.load_der_x509_certificate(certificate)
    alternatives = x509.SubjectAlternativeName(_alternatives([_common_name(old)]))
    if "central" in _duties(old):
        alternatives = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _certify(Path(keys), _elliptic(old.public_key()), old.subject, alternatives, lifetime_s)


def make_request(key_pem: bytes, host: str) -> bytes:
    """A certificate request (PEM) for a host's key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([_name(NameOID.COMMON_NAME, host)]))
    return builder.sign(load_key(key_pem), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def key_of_request(request: str) -> str:
    """The digest of the key that a certificate request is for, as the register has it."""
    return _digest(_key_of_request(request))


def issued_as(certificate: bytes) -> Issued:
    """What the register would note of this certificate (DER)."""
    return _issued_of(x509.load_der_x509_certificate(certificate))


def ca_certificate(key: ec.EllipticCurvePrivateKey, trust_domain: str) -> bytes:
    """The CA's own certificate (PEM)."""
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
        _builder(subject, subject, key.public_key(), _CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def revocation_list(keys: str | os.PathLike[str], number: int, revoked: Iterable[Issued]) -> bytes:
    """The signed list (PEM) of the certificates that were revoked; a list with a higher number replaces it."""
    ca_key, ca = _load_ca(Path(keys))
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(ca.subject)
        .last_update(now)
        .next_update(now + _CA_LIFETIME)  # a new one is made when something is revoked, and sent at once
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    for row in revoked:
        when = datetime.datetime.fromtimestamp(row.revoked_at or 0.0, datetime.UTC)
        entry = x509.RevokedCertificateBuilder().serial_number(int(row.serial, 16)).revocation_date(when)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_revocation_list(pem: bytes, ca_pem: bytes) -> tuple[int, list[str]]:
    """The number of a list and the serial numbers on it; UserError when this CA did not sign it."""
    try:
        signed = x509.load_pem_x509_crl(pem)
        ca = x509.load_pem_x509_certificate(ca_pem).public_key()
        if not signed.is_signature_valid(_elliptic(ca)):
            raise UserError("the revocation list is not signed by the pool's CA")
        number = signed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (ValueError, TypeError, x509.ExtensionNotFound):
        raise UserError("this is no revocation list", expected="PEM") from None
    return number, [as_serial(f"{entry.serial_number:X}") for entry in signed]


def _certify(
    keys: Path,
    key: ec.EllipticCurvePublicKey,
    subject: x509.Name,
    alternatives: x509.SubjectAlternativeName,
    lifetime_s: float,
) -> Signed:
    ca_key, ca = _load_ca(keys)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(subject, ca.subject, key, datetime.timedelta(seconds=lifetime_s))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .add_extension(usage, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    certificate = builder.sign(ca_key, hashes.SHA256())
    return Signed(certificate.public_bytes(serialization.Encoding.PEM), _issued_of(certificate))


def _issued_of(certificate: x509.Certificate) -> Issued:
    return Issued(
        serial=as_serial(f"{certificate.serial_number:X}"),
        name=_common_name(certificate).casefold(),
        duties=" ".join(sorted(_duties(certificate))),
        key=_digest(_elliptic(certificate.public_key())),
        made_at=(certificate.not_valid_before_utc + _BACKDATED).timestamp(),
        ends_at=certificate.not_valid_after_utc.timestamp(),
    )


def _duties(certificate: x509.Certificate) -> list[str]:
    return [str(unit.value) for unit in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)]


def _common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _key_of_request(request: bytes | str) -> ec.EllipticCurvePublicKey:
    try:
        wanted = x509.load_pem_x509_csr(request.encode() if isinstance(request, str) else request)
    except ValueError:
        raise UserError("this is no certificate request", expected="PEM") from None
    key = wanted.public_key()
    if not wanted.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise UserError("the certificate request does not hold", expected="an elliptic curve key's own signature")
    return key


def _elliptic(key: object) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise UserError("the certificate is not for an elliptic curve key")
    return key


def _digest(key: ec.EllipticCurvePublicKey) -> str:
    whole = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(whole).hexdigest()


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    """What the host is known as: names and addresses."""
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            # A DNSName is ASCII (RFC 5280, 4.2.1.6); another name stands in the subject alone.
            if name and name.isascii():
                found.append(x509.DNSName(name))
    return found


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
    )


def _name(kind: x509.ObjectIdentifier, text: str) -> x509.NameAttribute[str]:
    if not 0 < len(text) <= 64:
        raise UserError(f"{text[:80]!r} cannot stand in a certificate", expected="1 to 64 characters")
    return x509.NameAttribute(kind, text)


def _load_ca(keys: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        return load_key((keys / CA_KEY_FILE).read_bytes()), x509.load_pem_x509_certificate(
            (keys / CA_FILE).read_bytes()
        )
    except OSError as error:
        raise UserError(f"this host cannot sign certificates: {error.filename}: {error.strerror}") from None


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """The private key of a file of KEYS."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError("the key is not an elliptic curve key")
    return key
