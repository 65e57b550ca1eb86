from __future__ import annotations

import pytest

from raftflow.cluster.consensus.certified import (
    WRONG_CERTIFICATE,
    check_certificate,
    names_of,
    peer_name,
)
from raftflow.cluster.consensus.handshake import HandshakeError


class Transport:
    def __init__(self, **extra: object) -> None:
        self._extra = extra

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._extra.get(name, default)


def names(transport: Transport) -> frozenset[str] | None:
    return names_of(transport)  # type: ignore[arg-type]


def test_the_names_are_the_uris() -> None:
    certificate = {"subjectAltName": (("DNS", "raftflow:a/n1"), ("URI", "raftflow:a/n2"))}
    assert names(Transport(ssl_object=object(), peercert=certificate)) == {"raftflow:a/n2"}


def test_no_tls_and_no_certificate_are_not_the_same() -> None:
    assert names(Transport()) is None
    assert names(Transport(ssl_object=object())) == frozenset()


@pytest.mark.parametrize(
    "shown", [(), ("raftflow:shop/n2",), ("raftflow:other/n1",), ("raftflow:shop/n1/",)]
)
def test_another_name_is_refused(shown: tuple[str, ...]) -> None:
    with pytest.raises(HandshakeError, match="must name raftflow:shop/n1, but names") as caught:
        check_certificate(frozenset(shown), cluster_id="shop", node_id="n1")
    assert caught.value.reason == WRONG_CERTIFICATE


def test_the_name_itself_will_do_and_so_does_no_tls() -> None:
    shown = frozenset({"raftflow:shop/n2", peer_name("shop", "n1")})
    check_certificate(shown, cluster_id="shop", node_id="n1")
    check_certificate(None, cluster_id="shop", node_id="n1")
