from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from certs import api_tls, authority_of, issue, issue_expired, peer_files, peer_tls
from eventually import eventually
from structlog.testing import capture_logs

from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.config import Address, Config
from raftflow.cluster.errors import StartRefused
from raftflow.cluster.tls import (
    CertificateWatch,
    Credentials,
    api_credentials,
    peer_credentials,
    tell_clear_ports,
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs")
    issue(made, "n1", "n2")
    return made


@contextlib.contextmanager
def told(event: str) -> Iterator[list[dict[str, object]]]:
    found: list[dict[str, object]] = []
    with capture_logs() as logs:
        yield found
    found += [dict(log) for log in logs if log["event"] == event]


def test_files_that_did_not_change_are_not_loaded_again(authority: Authority) -> None:
    tls = peer_tls(authority, "n1")
    before = tls.loaded
    tls.refresh()
    assert tls.loaded is before


def test_a_new_pair_is_taken(authority: Authority) -> None:
    tls = peer_tls(authority, "n1")
    before = tls.loaded
    authority.renew("n1", days=10)
    with told("certificate_loaded") as events:
        tls.refresh()
    assert tls.loaded is not before
    assert tls.loaded.certificate == authority.certificate("n1").read_bytes()
    assert tls.accepting() is not before.accepting
    assert [event["use"] for event in events] == ["peer"]


def put(path: Path, content: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("foreign key", "is not the key of"),
        ("gone", "No such file"),
        ("garbage", "holds no certificate"),
        ("of another node", "must name raftflow:test/n1, but names raftflow:test/n2"),
        ("foreign authority", "peers would not trust it: unable to get local issuer certificate"),
        ("expired", "peers would not trust it: certificate has expired"),
    ],
)
def test_a_bad_pair_keeps_the_old_and_says_so(
    authority: Authority, tmp_path: Path, harm: str, why: str
) -> None:
    tls = peer_tls(authority, "n1")
    before = tls.loaded
    certificate, key = authority.certificate("n1"), authority.key("n1")
    if harm == "foreign key":
        put(key, authority.key("n2").read_bytes())
    elif harm == "gone":
        certificate.unlink()
    elif harm == "garbage":
        put(certificate, b"-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    elif harm == "of another node":
        put(certificate, authority.certificate("n2").read_bytes())
        put(key, authority.key("n2").read_bytes())
    elif harm == "foreign authority":
        foreign = authority_of(tmp_path / "foreign")
        issue(foreign, "n1")
        put(certificate, foreign.certificate("n1").read_bytes())
        put(key, foreign.key("n1").read_bytes())
    else:
        issue_expired(authority, "n1")
    with told("certificate_kept") as events:
        tls.refresh()
        tls.refresh()  # one complaint is said once
    assert tls.loaded is before
    assert len(events) == 1
    assert why in str(events[0]["reason"])
    authority.issue("n1", hosts=("127.0.0.1",), days=10)
    tls.refresh()
    assert tls.loaded is not before


def test_a_start_is_refused_with_what_is_wrong(authority: Authority) -> None:
    with pytest.raises(StartRefused, match="must name raftflow:test/n9"):
        peer_tls(authority, "n1", node="n9")
    authority.key("n2").unlink()
    with pytest.raises(StartRefused, match=r"n2\.key: No such file"):
        peer_tls(authority, "n2")


def test_a_certificate_that_is_over_starts_so_that_a_new_one_cures_it(
    authority: Authority,
) -> None:
    issue_expired(authority, "n1")
    tls, api = peer_tls(authority, "n1"), api_tls(authority, "n1")
    watch = CertificateWatch([tls, api])
    left = watch.seconds_left()
    assert left["peer"] < 0
    assert left["api"] < 0 < left["peer_ca"]
    issue(authority, "n1")
    tls.refresh()
    assert watch.seconds_left()["peer"] > 0


def test_no_settings_no_tls(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    assert api_credentials(config) is None
    assert peer_credentials(config) is None
    assert config.http_scheme == "http"


def test_from_settings(authority: Authority, tmp_path: Path) -> None:
    files = peer_files(authority, "n1")
    config = Config(
        data_dir=tmp_path,
        cluster_id="test",
        tls_cert_file=files.certificate,
        tls_key_file=files.key,
        tls_client_ca_file=files.authorities,
        peer_cert_file=files.certificate,
        peer_key_file=files.key,
        peer_ca_file=files.authorities,
    )
    api, peer = api_credentials(config), peer_credentials(config)
    assert isinstance(peer, Credentials)
    assert isinstance(api, Credentials)
    assert api.asks_for_certificates
    assert config.http_scheme == "https"


def test_ports_in_the_clear_beyond_this_machine_are_told() -> None:
    with told("ports_without_tls") as events:
        tell_clear_ports(Config())
    assert events == []
    with told("ports_without_tls") as events:
        tell_clear_ports(Config(http_addr=Address("0.0.0.0", 8233)))
    assert [event["http"] for event in events] == ["0.0.0.0:8233"]
    assert "grpc" not in events[0]


async def test_the_watch_looks_at_once_when_hurried_and_warns_once_a_day(
    authority: Authority,
) -> None:
    tls = peer_tls(authority, "n1")
    watch = CertificateWatch([tls])
    with capture_logs() as logs:
        running = asyncio.create_task(watch.run())
        await asyncio.sleep(0)
        authority.renew("n1", days=3)
        os.sync()
        watch.hurry()
        await eventually(
            lambda: [log for log in logs if log["event"] == "certificate_expires_soon"]
        )
        watch.hurry()
        await asyncio.sleep(0.05)
        running.cancel()
    warned = [log for log in logs if log["event"] == "certificate_expires_soon"]
    assert [log["use"] for log in warned] == ["peer"]
