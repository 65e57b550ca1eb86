"""X.509 for one cluster: its certificate authority, and what that signs.

A certificate of a node names it as its peers know it (`consensus/certified.py`), and the hosts by
which clients reach it: one pair serves the Raft port and the APIs. Keys are ECDSA on P-256, which
every TLS library speaks.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from raftflow.cluster.consensus.certified import peer_name

# Machines whose clocks are a little behind take a new certificate, too.
_BACKDATED = dt.timedelta(hours=1)
_CLUSTER_PREFIX = "raftflow:"
_MAX_COMMON_NAME = 64
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")  # IDNA of 2003 and of 2008
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


class BadCertificate(Exception):
    """What was read is not what it should be; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is for: a node of the cluster, or a client that is none."""

    name: str
    hosts: tuple[str, ...] = ()
    client: bool = False


def new_authority(cluster_id: str, *, days: int) -> Pair:
    """A certificate authority that is for this cluster alone, and signs no other authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Its successor must not have the same name: which of two signed is told apart by it.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster_id),
            x509.NameAttribute(NameOID.COMMON_NAME, f"raftflow CA {serial:040x}"[:28]),
        ]
    )
    usage = _usage(signs_certificates=True)
    cluster = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier(f"raftflow:{cluster_id}")]
    )
    builder = (
        _builder(name, name, key.public_key(), serial, _in(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(cluster, critical=False)
    )
    return Pair(pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(authority: Pair, subject: Subject, *, days: int) -> Pair:
    """A certificate for the subject, with a new key. It ends with its authority at the latest."""
    signer = read(authority.certificate)[0]
    signing_key = read_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.name[:_MAX_COMMON_NAME])])
    names: list[x509.GeneralName] = [_host(each) for each in subject.hosts]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if not subject.client:
        uri = peer_name(cluster_of(signer), subject.name)
        names.insert(0, x509.UniformResourceIdentifier(uri))
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(signer))
    until = min(_in(days), signer.not_valid_after_utc)
    builder = (
        _builder(name, signer.subject, key.public_key(), x509.random_serial_number(), until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(identifier, critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(pem(builder.sign(signing_key, hashes.SHA256())), _key_pem(key))


def read(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a file, in its order; at least one."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise BadCertificate(f"it holds no certificate in PEM: {error}") from None


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadCertificate(
            f"it holds no private key in PEM without a password: {error}"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificate("it holds a key of another kind than `raftflow cert` makes")
    return key


def cluster_of(authority: x509.Certificate) -> str:
    """The cluster whose authority this is."""
    for uri in uris(authority):
        if uri.startswith(_CLUSTER_PREFIX) and "/" not in uri:
            return uri.removeprefix(_CLUSTER_PREFIX)
    raise BadCertificate("it is not the authority of a cluster: `raftflow cert init` makes one")


def subject_of(certificate: x509.Certificate) -> Subject:
    """Whom `issue` made it for."""
    attributes = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(attributes[0].value) if attributes else ""
    nodes = [uri.partition("/")[2] for uri in uris(certificate) if uri.startswith(_CLUSTER_PREFIX)]
    hosts = tuple(_hosts(certificate))
    return Subject(nodes[0], hosts) if nodes else Subject(name, hosts, client=True)


def uris(certificate: x509.Certificate) -> list[str]:
    names = _alternative_names(certificate)
    return names.get_values_for_type(x509.UniformResourceIdentifier) if names else []


def ends(certificates: Sequence[x509.Certificate]) -> dt.datetime:
    """When the first of them is over."""
    return min(each.not_valid_after_utc for each in certificates)


def issuer_of(
    certificate: x509.Certificate, authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """Which of these signed it."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def is_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return certificate.public_key() == key.public_key()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(_in(0) - _BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    if not _HOST.fullmatch(text):
        raise BadCertificate(f"{text!r} is neither a host name nor an address{_in_dns(text)}")
    return x509.DNSName(text)


def _in_dns(text: str) -> str:
    """How a name beyond ASCII stands in DNS, and so in certificates. Not where two standards
    differ: only who registered it knows."""
    if text.isascii():
        return ""
    try:
        name = text.encode("idna").decode()
    except UnicodeError:
        return ""
    if not _HOST.fullmatch(name) or not _AMBIGUOUS.isdisjoint(text):
        return ": name it as it stands in DNS, xn--..."
    return f": in DNS it is {name}; name that"


def _hosts(certificate: x509.Certificate) -> list[str]:
    names = _alternative_names(certificate)
    if names is None:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _public(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _in(days: int) -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=days)
