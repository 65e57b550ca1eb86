"""Who a certificate says that a peer is.

It names a node of one cluster, `raftflow:CLUSTER/NODE`, as a URI among its alternative names. Hosts
and addresses are no part of that: nodes move.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol

from raftflow.cluster.consensus.handshake import HandshakeError

WRONG_CERTIFICATE = "wrong_certificate"


class PeerTls(Protocol):
    """What this node shows its peers and whom it trusts: asked anew for each connection."""

    @property
    def optional(self) -> bool:
        """Whether peers may still speak in the clear."""
        ...

    def accepting(self) -> ssl.SSLContext: ...
    def dialling(self) -> ssl.SSLContext: ...


def peer_name(cluster_id: str, node_id: str) -> str:
    return f"raftflow:{cluster_id}/{node_id}"


def names_of(transport: asyncio.BaseTransport) -> frozenset[str] | None:
    """What the other side's certificate names; None where there is no TLS."""
    if transport.get_extra_info("ssl_object") is None:
        return None
    certificate = transport.get_extra_info("peercert") or {}
    return frozenset(name for kind, name in certificate.get("subjectAltName", ()) if kind == "URI")


def check_certificate(names: frozenset[str] | None, *, cluster_id: str, node_id: str) -> None:
    """Whoever calls itself a node must have the certificate of that node."""
    wanted = peer_name(cluster_id, node_id)
    if names is not None and wanted not in names:
        shown = ", ".join(sorted(names))[:200] or "no node"
        raise HandshakeError(
            WRONG_CERTIFICATE, f"the certificate must name {wanted}, but names {shown}"
        )
