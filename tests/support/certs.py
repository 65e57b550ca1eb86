"""Certificates for tests, made as `raftflow cert` makes them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from unittest.mock import patch

from raftflow.cluster import certificates
from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.consensus.certified import peer_name
from raftflow.cluster.tls import Credentials, Files, Use

HOSTS = ("127.0.0.1", "localhost")


def authority_of(directory: Path, cluster_id: str = "test") -> Authority:
    authority = Authority(directory)
    authority.create(cluster_id, days=30)
    return authority


def issue(authority: Authority, *names: str) -> None:
    for name in names:
        authority.issue(name, hosts=HOSTS, days=20)


def issue_expired(authority: Authority, name: str) -> None:
    """Over since yesterday."""
    with patch.object(certificates, "_BACKDATED", dt.timedelta(days=3)):
        authority.issue(name, hosts=HOSTS, days=-1)


def peer_files(authority: Authority, name: str) -> Files:
    return Files(str(authority.certificate(name)), str(authority.key(name)), str(authority.trusted))


def peer_tls(
    authority: Authority, name: str, *, node: str = "", optional: bool = False
) -> Credentials:
    """What a node shows that was given the files of `name`."""
    return Credentials(
        Use.PEER,
        peer_files(authority, name),
        peer=peer_name(authority.cluster_id, node or name),
        optional=optional,
    )


def api_tls(authority: Authority, name: str, *, asks: bool = False) -> Credentials:
    files = peer_files(authority, name)
    trusted = files.authorities if asks else ""
    return Credentials(Use.API, Files(files.certificate, files.key, trusted))


def serve_flags(authority: Authority, name: str) -> tuple[str, ...]:
    """The settings of a node that speaks TLS on all ports."""
    certificate, key = str(authority.certificate(name)), str(authority.key(name))
    return (
        *("--tls-cert-file", certificate, "--tls-key-file", key),
        *("--peer-cert-file", certificate, "--peer-key-file", key),
        *("--peer-ca-file", str(authority.trusted)),
    )
