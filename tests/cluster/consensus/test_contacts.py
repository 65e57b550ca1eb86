"""What real meshes note of peers that they do not reach."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from certs import authority_of, issue, issue_expired, peer_tls
from eventually import eventually
from peers import Peer, hello_of, start_peer
from ports import free_ports

from raftflow.cluster.consensus.contacts import Contact, Trouble
from raftflow.cluster.consensus.handshake import Purpose

ONE_AND_TWO = ("n1", "n2")


def ports_of(*ids: str) -> dict[str, int]:
    return dict(zip(ids, free_ports(len(ids)), strict=True))


def seen(peer: Peer, other: str) -> Contact:
    return peer.mesh.contacts.all()[other]


async def trouble(peer: Peer, other: str, expected: Trouble) -> Contact:
    await eventually(lambda: seen(peer, other).trouble is expected)
    return seen(peer, other)


async def test_nobody_listens_then_it_is_there_and_then_gone_again() -> None:
    ports = ports_of(*ONE_AND_TWO)
    one = await start_peer("n1", ports)
    away = await trouble(one, "n2", Trouble.CONNECTION_REFUSED)
    assert not away.connected
    assert "refused" in away.detail
    two = await start_peer("n2", ports)
    await eventually(lambda: seen(one, "n2").connected)
    assert seen(one, "n2").since_s >= away.since_s
    await two.mesh.stop()
    await eventually(lambda: not seen(one, "n2").connected)
    gone = await trouble(one, "n2", Trouble.CONNECTION_REFUSED)
    assert gone.since_s <= gone.at_s
    await one.mesh.stop()


async def test_one_that_takes_connections_and_says_nothing_is_silent() -> None:
    ports = ports_of(*ONE_AND_TWO)
    with socket.create_server(("127.0.0.1", ports["n2"])):
        one = await start_peer("n1", ports)
        found = await trouble(one, "n2", Trouble.SILENT)
        assert not found.connected
        await one.mesh.stop()


async def test_it_is_for_the_peer_to_call() -> None:
    two = await start_peer("n2", ports_of(*ONE_AND_TWO))
    assert seen(two, "n1").trouble is Trouble.NOT_TRIED
    # One that should have called long ago is called, so that it is known what keeps it away.
    await trouble(two, "n1", Trouble.CONNECTION_REFUSED)
    await two.mesh.stop()


async def test_one_that_answers_and_cannot_call_back_is_not_said_to_refuse() -> None:
    """As behind a firewall that lets only one of them open connections."""
    (first, second), (nowhere,) = free_ports(2), free_ports(1)
    one = await start_peer("n1", {"n1": first, "n2": nowhere})
    two = await start_peer("n2", {"n1": first, "n2": second})
    await trouble(two, "n1", Trouble.ONE_WAY)
    assert seen(one, "n2").trouble is Trouble.CONNECTION_REFUSED
    for each in (one, two):
        assert not seen(each, "n2" if each is one else "n1").refusal
        await each.mesh.stop()


async def test_who_is_of_another_cluster_is_refused_and_both_know() -> None:
    ports = ports_of(*ONE_AND_TWO)
    one = await start_peer("n1", ports)
    two = await start_peer("n2", ports, hello=hello_of("n2", cluster_id="other"))
    told = await trouble(one, "n2", Trouble.REFUSED_BY_PEER)
    assert told.refusal.startswith("wrong_cluster: ")
    noted = await trouble(two, "n1", Trouble.REFUSED_HERE)
    assert noted.refusal.startswith("wrong_cluster: ")
    await two.mesh.stop()
    # The refusal stays what is known of it, beside that nobody listens there any more.
    gone = await trouble(one, "n2", Trouble.CONNECTION_REFUSED)
    assert gone.refusal.startswith("wrong_cluster: ")
    assert gone.refused_at_s <= gone.at_s
    await one.mesh.stop()


@pytest.mark.parametrize("expired", ONE_AND_TWO)
async def test_a_certificate_that_is_over_is_known_to_whoever_refused_it(
    tmp_path: Path, expired: str
) -> None:
    """n1 dials n2; whichever of them shows it."""
    authority = authority_of(tmp_path / "certs")
    issue(authority, *ONE_AND_TWO)
    issue_expired(authority, expired)
    ports = ports_of(*ONE_AND_TWO)
    peers = {each: await start_peer(each, ports, tls=peer_tls(authority, each)) for each in ports}
    found = await trouble(peers["n1"], "n2", Trouble.TLS)
    if expired == "n2":
        assert "certificate has expired" in found.refusal
    else:
        assert "hung up when it had seen this node's certificate" in found.refusal
        await eventually(lambda: "127.0.0.1" in peers["n2"].mesh.refused_hosts)
        _when, why = peers["n2"].mesh.refused_hosts["127.0.0.1"]
        assert "expired" in why
    for peer in peers.values():
        await peer.mesh.stop()


async def test_a_member_that_left_is_remembered_and_strangers_are_few() -> None:
    ports = ports_of(*ONE_AND_TWO)
    one = await start_peer("n1", ports)
    two = await start_peer("n2", ports)
    await eventually(lambda: seen(one, "n2").connected)
    one.mesh.follow({}, configuration=7)
    left = await trouble(one, "n2", Trouble.REFUSED_HERE)
    assert left.refusal == "not_a_member: as of entry 7"
    await two.mesh.stop()
    caller = await start_peer("x", {"x": free_ports(1)[0]})
    for number in range(30):
        hello = hello_of(f"x{number}").to("n1", Purpose.RAFT)
        link = await caller.mesh._open("127.0.0.1", ports["n1"], hello, None)
        await link.ended
    await caller.mesh.stop()
    known = one.mesh.contacts.all()
    assert len(known) == 16
    assert "x29" in known
    await one.mesh.stop()
