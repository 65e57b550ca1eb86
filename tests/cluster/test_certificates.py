from __future__ import annotations

import datetime as dt
import re

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from raftflow.cluster import certificates
from raftflow.cluster.certificates import BadCertificate, Pair, Subject


@pytest.fixture(scope="module")
def authority() -> Pair:
    return certificates.new_authority("shop", days=30)


def only(pair: Pair) -> x509.Certificate:
    (certificate,) = certificates.read(pair.certificate)
    return certificate


def test_an_authority_signs_for_its_cluster_and_makes_no_other_authority(authority: Pair) -> None:
    own = only(authority)
    assert certificates.cluster_of(own) == "shop"
    constraints = own.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (
        True,
        True,
        0,
    )
    assert certificates.issuer_of(own, [own]) == own


def test_a_node_is_named_as_its_peers_and_its_clients_know_it(authority: Pair) -> None:
    subject = Subject("n1", ("n1.example.com", "10.0.0.1", "::1"))
    made = certificates.issue(authority, subject, days=10)
    certificate = only(made)
    assert certificates.uris(certificate) == ["raftflow:shop/n1"]
    assert certificates.subject_of(certificate) == subject
    assert certificates.issuer_of(certificate, [only(authority)]) == only(authority)
    assert certificates.is_pair(certificate, certificates.read_key(made.key))
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}


def test_a_client_is_no_node(authority: Pair) -> None:
    made = certificates.issue(authority, Subject("reports", client=True), days=10)
    assert certificates.uris(only(made)) == []
    assert certificates.subject_of(only(made)) == Subject("reports", client=True)
    usages = only(made).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_nothing_outlives_its_authority(authority: Pair) -> None:
    made = certificates.issue(authority, Subject("n1", ("n1",)), days=1000)
    assert only(made).not_valid_after_utc == only(authority).not_valid_after_utc


def test_which_of_two_authorities_signed(authority: Pair) -> None:
    other = certificates.new_authority("shop", days=30)
    assert only(other).subject != only(authority).subject
    made = certificates.issue(other, Subject("n1", ("n1",)), days=10)
    both = certificates.read(authority.certificate + other.certificate)
    assert certificates.issuer_of(only(made), both) == only(other)
    assert certificates.issuer_of(only(made), both[:1]) is None
    assert certificates.ends(both) == min(each.not_valid_after_utc for each in both)


def test_a_clock_that_is_a_little_behind_takes_a_new_one(authority: Pair) -> None:
    made = only(certificates.issue(authority, Subject("n1", ("n1",)), days=10))
    assert dt.datetime.now(dt.UTC) - made.not_valid_before_utc >= dt.timedelta(minutes=59)


@pytest.mark.parametrize("host", ["ü.example", "a b", ""])
def test_a_host_that_is_none(authority: Pair, host: str) -> None:
    with pytest.raises(BadCertificate, match=re.escape(repr(host))):
        certificates.issue(authority, Subject("n1", (host,)), days=10)


def test_what_is_no_certificate_and_no_key(authority: Pair) -> None:
    with pytest.raises(BadCertificate, match="no certificate"):
        certificates.read(authority.key)
    with pytest.raises(BadCertificate, match="no private key"):
        certificates.read_key(authority.certificate)
    leaf = only(certificates.issue(authority, Subject("n1", ("n1",)), days=10))
    with pytest.raises(BadCertificate, match="not the authority of a cluster"):
        certificates.cluster_of(leaf)
