from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from certs import authority_of, issue
from fake_api import serving

from raftflow.cluster.cli.authority import Authority
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import Unavailable
from raftflow_sdk.trust import TlsFiles, Trust


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs")
    issue(made, "n1")
    made.issue("worker", client=True, days=10)
    return made


def server_with(authority: Authority, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate("n1"), authority.key("n1"))
    if asks:
        context.load_verify_locations(authority.trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def answers(address: str, **files: Path) -> bool:
    connection = Connection([f"https://{address}"], **files)  # type: ignore[arg-type]
    return connection.call("GET", "/api/health", retry_for=0) == {"ok": 1}


def test_a_file_of_authorities(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: (200, {"ok": 1}), tls=server_with(authority)) as fake:
        assert answers(fake.address, ca_file=authority.trusted)
        with pytest.raises(Unavailable, match="certificate verify failed"):
            answers(fake.address)
        monkeypatch.setenv("RAFTFLOW_CA_FILE", str(authority.trusted))
        assert answers(fake.address)


def test_a_certificate_is_shown(authority: Authority) -> None:
    with serving(lambda _: (200, {"ok": 1}), tls=server_with(authority, asks=True)) as fake:
        assert answers(
            fake.address,
            ca_file=authority.trusted,
            cert_file=authority.certificate("worker"),
            key_file=authority.key("worker"),
        )
        with pytest.raises(Unavailable):
            answers(fake.address, ca_file=authority.trusted)


def test_a_new_authority_is_trusted_without_a_restart(authority: Authority) -> None:
    with serving(lambda _: (200, {"ok": 1}), tls=server_with(authority)) as fake:
        connection = Connection([f"https://{fake.address}"], ca_file=authority.trusted)
        connection.call("GET", "/api/health", retry_for=0)
    authority.succeed(days=30)
    authority.renew("n1", days=10)
    authority.drop_old()
    with serving(lambda _: (200, {"ok": 1}), tls=server_with(authority)) as fake:
        later = Connection([f"https://{fake.address}"], ca_file=authority.trusted)
        assert later.call("GET", "/api/health", retry_for=0) == {"ok": 1}


def test_files_are_read_again_when_they_change(authority: Authority) -> None:
    trust = Trust(None, TlsFiles(authority.trusted))
    before = trust.context()
    assert trust.context() is before
    authority.succeed(days=30)
    after = trust.context()
    assert after is not before
    assert len(after.get_ca_certs()) == 2


def test_what_cannot_be_read_replaces_nothing(authority: Authority) -> None:
    trust = Trust(None, TlsFiles(authority.trusted))
    before = trust.context()
    authority.trusted.write_text("nothing")
    assert trust.context() is before
    authority.trusted.unlink()
    assert trust.context() is before


def test_wrong_files_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"missing\.crt"):
        Connection(["https://127.0.0.1:1"], ca_file=tmp_path / "missing.crt")
    with pytest.raises(ValueError, match="goes with cert_file"):
        TlsFiles(key_file=tmp_path / "n1.key")
    with pytest.raises(ValueError, match="not both"):
        Trust(ssl.create_default_context(), TlsFiles(tmp_path / "ca.crt"))


def test_a_context_of_the_callers_own(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=authority.trusted)
    assert Trust(context, TlsFiles()).context() is context
