from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from certs import authority_of, issue, issue_expired, peer_tls
from eventually import eventually
from peers import Peer, hello_of, meshed, start_peer
from ports import free_ports
from structlog.testing import capture_logs

from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.consensus import handshake
from raftflow.cluster.consensus.certified import WRONG_CERTIFICATE
from raftflow.cluster.consensus.framing import header
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.consensus.link import Link, LinkLimits
from raftflow.cluster.consensus.mesh import AddressUnavailable, split_address


def framed(payload: bytes) -> bytes:
    return header(payload) + payload


async def test_all_pairs_connect_and_frames_arrive_in_order() -> None:
    async with meshed("n1", "n2", "n3") as peers:
        for one in peers:
            for other in peers.keys() - {one}:
                await eventually(lambda o=one, p=other: peers[o].link(p))
                await eventually(lambda o=one, p=other: peers[o].link(p, Purpose.CHANNEL))
        for number in range(100):
            assert peers["n1"].link("n3").send(b"%d" % number)
            assert peers["n3"].link("n1").send(b"%d" % -number)
        await eventually(lambda: len(peers["n3"].raft.frames) == 100)
        await eventually(lambda: len(peers["n1"].raft.frames) == 100)
        assert [body for _, body in peers["n3"].raft.frames] == [b"%d" % i for i in range(100)]
        assert {sender for sender, _ in peers["n1"].raft.frames} == {"n3"}
        assert peers["n2"].mesh.known["n1"].http == "n1:1"


async def test_a_restarted_peer_is_back_at_once_and_its_death_was_noticed() -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    one = await start_peer("n1", ports)
    for round_number in range(3):
        two = await start_peer("n2", ports, hello=hello_of("n2", boot_id=f"b{round_number}"))
        await eventually(lambda: one.link("n2"), within_s=0.5)
        await two.mesh.stop()
        await eventually(lambda: one.link("n2") is None)
    assert one.raft.events == [("up", "n2"), ("died", "n2")] * 3
    await one.mesh.stop()


@pytest.mark.parametrize(("name", "other"), [("n1", "n2"), ("n2", "n1")])
async def test_a_stopped_node_has_no_connection_left(name: str, other: str) -> None:
    async with meshed("n1", "n2") as peers:
        links = [peers[name].link(other, purpose) for purpose in Purpose]
        await peers[name].mesh.stop()
        assert [(link.reason, link.ended.done()) for link in links] == [("stopping", True)] * 2
        assert peers[name].raft.events == [("up", other), ("down", other)]


async def test_a_node_that_stops_in_the_moment_of_a_connection_stops() -> None:
    """uvloop closes the socket of a dial that is given up there and does not tell its protocol."""
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    two = await start_peer("n2", ports)
    one = await start_peer("n1", ports)  # dials from the next turn of the loop on
    opened, stopping = one.mesh.link_opened, []

    def opened_and_stopped(link: Link) -> bool:
        stopping.append(asyncio.create_task(one.mesh.stop()))
        return opened(link)

    one.mesh.link_opened = opened_and_stopped  # type: ignore[method-assign]
    await eventually(lambda: stopping)
    async with asyncio.timeout(5):
        await asyncio.gather(*stopping)
    await two.mesh.stop()


async def test_a_successor_takes_the_place_of_a_connection_of_the_same_process() -> None:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n2"].link("n1"))
        first = peers["n2"].link("n1")
        # A second call by the same process: n1 had given the first one up.
        call = peers["n1"].hello.to("n2", Purpose.RAFT)
        reader, writer = await asyncio.open_connection("127.0.0.1", peers["n2"].port)
        writer.write(framed(handshake.encode(call)))
        await reader.readexactly(8)
        await eventually(lambda: peers["n2"].link("n1") is not first)
        assert ("down", "n1") in peers["n2"].raft.events
        assert first.reason == "replaced"
        writer.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "bad_frame"),
        (struct.pack("<II", 0xFFFF_FFFF, 0), "bad_frame"),
        (struct.pack("<II", 5, 0) + b"hello", "bad_frame"),
        (framed(b"\x80\x04\x95."), "malformed_hello"),
        (framed(b"not json"), "malformed_hello"),
        (
            framed(handshake.encode(hello_of("n1", cluster_id="x").to("n2", Purpose.RAFT))),
            "wrong_cluster",
        ),
        (framed(handshake.encode(hello_of("n9").to("n2", Purpose.RAFT))), "not_a_member"),
        (framed(handshake.encode(hello_of("n2").to("n2", Purpose.RAFT))), "duplicate_node_id"),
        (framed(handshake.encode(hello_of("n1").to("n3", Purpose.RAFT))), "wrong_node"),
        (
            framed(
                handshake.encode(hello_of("n1").to("n2", Purpose.RAFT)).replace(
                    b'"protocol":1', b'"protocol":2'
                )
            ),
            "wrong_protocol",
        ),
        pytest.param(b"", "handshake_timeout", marks=pytest.mark.slow),
        pytest.param(b"\x05\x00", "handshake_timeout", marks=pytest.mark.slow),
    ],
)
async def test_strangers_cost_one_event_and_nothing_else(sent: bytes, reason: str) -> None:
    async with meshed("n1", "n2", "n3") as peers:
        await eventually(lambda: peers["n2"].link("n1"))
        with capture_logs() as logs:
            reader, writer = await asyncio.open_connection("127.0.0.1", peers["n2"].port)
            writer.write(sent)
            await asyncio.wait_for(reader.read(), 2)
        told = [log["reason"] for log in logs if log["event"] == "link_closed"]
        assert told == [reason]
        assert peers["n1"].link("n2").send(b"still here")
        await eventually(lambda: ("n1", b"still here") in peers["n2"].raft.frames)
        writer.close()


async def test_a_flood_of_strangers_is_told_of_once_a_reason() -> None:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n2"].link("n1"))
        with capture_logs() as logs:
            for payload in (b"x", b"{}") * 20:
                reader, writer = await asyncio.open_connection("127.0.0.1", peers["n2"].port)
                writer.write(header(payload) + payload)
                await asyncio.wait_for(reader.read(), 5)
                writer.close()
        told = [log["reason"] for log in logs if log["event"] == "link_closed"]
        assert sorted(told) == ["malformed_hello", "wrong_protocol"]


async def test_who_takes_longest_to_say_who_it_is_makes_room() -> None:
    async with meshed("n1", "n2", limits=LinkLimits(max_unknown_connections=2)) as peers:
        await eventually(lambda: peers["n2"].link("n1", Purpose.CHANNEL))
        oldest, *others = [
            await asyncio.open_connection("127.0.0.1", peers["n2"].port) for _ in range(3)
        ]
        assert await asyncio.wait_for(oldest[0].read(), 2) == b""
        for reader, writer in others:
            assert not reader.at_eof()
            writer.close()


async def test_a_keepalive_is_nothing_to_begin_with() -> None:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n2"].link("n1"))
        with capture_logs() as logs:
            reader, writer = await asyncio.open_connection("127.0.0.1", peers["n2"].port)
            writer.write(bytes(8) * 100)
            assert await asyncio.wait_for(reader.read(), 2) == b""
        (told,) = [log for log in logs if log["event"] == "link_closed"]
        assert (told["reason"], told["detail"]) == ("bad_frame", "a keepalive before the hello")
        writer.close()


async def test_a_stranger_is_not_told_the_name_of_the_cluster() -> None:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n2"].link("n1"))
        reader, writer = await asyncio.open_connection("127.0.0.1", peers["n2"].port)
        call = handshake.encode(hello_of("n1", cluster_id="guess").to("n2", Purpose.RAFT))
        writer.write(header(call) + call)
        answer = await asyncio.wait_for(reader.read(), 2)
        assert b"wrong_cluster" in answer
        assert hello_of("n1").cluster_id.encode() not in answer
        writer.close()


async def test_strangers_are_bounded() -> None:
    async with meshed("n1", "n2", limits=LinkLimits(max_unknown_connections=4)) as peers:
        await eventually(lambda: peers["n2"].link("n1", Purpose.CHANNEL))
        streams = [await asyncio.open_connection("127.0.0.1", peers["n2"].port) for _ in range(10)]
        closed = [asyncio.create_task(reader.read()) for reader, _ in streams]
        await eventually(lambda: sum(task.done() for task in closed) == 6)
        for task in closed:
            task.cancel()
        for _, writer in streams:
            writer.close()


async def test_the_dialler_refuses_a_wrong_answer_and_tells_it_once() -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    stranger = await start_peer("n2", ports, hello=hello_of("n2", cluster_id="other"))
    with capture_logs() as logs:
        one = await start_peer("n1", ports)
        refused = {"reason": "refused_by_peer"}
        await eventually(lambda: [e for e in logs if e.items() >= refused.items()])
        assert "wrong_cluster" in next(e for e in logs if e.items() >= refused.items())["detail"]
        assert one.link("n2") is None
    await one.mesh.stop()
    await stranger.mesh.stop()


async def test_a_taken_port_is_named() -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports["n1"]))
        holder.listen()
        with pytest.raises(AddressUnavailable, match=f"127.0.0.1:{ports['n1']}"):
            await start_peer("n1", ports)


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", ":70000", "host:99999"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(address)


def test_good_addresses() -> None:
    assert split_address("[::1]:80") == ("::1", 80)
    assert split_address("db.example:7000") == ("db.example", 7000)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs")
    issue(made, "n1", "n2", "n3")
    return made


async def test_mutual_tls(authority: Authority) -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    one = await start_peer("n1", ports, tls=peer_tls(authority, "n1"))
    two = await start_peer("n2", ports, tls=peer_tls(authority, "n2"))
    await eventually(lambda: one.link("n2") and two.link("n1"))
    assert one.link("n2").send(bytes(100_000))
    await eventually(lambda: two.raft.frames == [("n1", bytes(100_000))])
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", two.port)
        writer.write(framed(handshake.encode(hello_of("n1").to("n2", Purpose.RAFT))))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: [log for log in logs if log["event"] == "tls_refused"])
    assert not [log for log in logs if log["event"] == "link_up"]
    await one.mesh.stop()
    await two.mesh.stop()


async def test_who_calls_itself_a_node_shows_the_certificate_of_that_node(
    authority: Authority,
) -> None:
    """n3 has a certificate of the right authority, and calls itself n1 with it."""
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    two = await start_peer("n2", ports, tls=peer_tls(authority, "n2"))
    with capture_logs() as logs:
        impostor = await start_peer("n1", ports, tls=peer_tls(authority, "n3"))
        await eventually(lambda: impostor.refusals)
        assert impostor.refusals[0] == ("n2", WRONG_CERTIFICATE)
        await eventually(lambda: [log for log in logs if log.get("reason") == WRONG_CERTIFICATE])
    (told, *_) = [log["detail"] for log in logs if log.get("reason") == WRONG_CERTIFICATE]
    assert told == "the certificate must name raftflow:test/n1, but names raftflow:test/n3"
    assert two.raft.events == []
    await impostor.mesh.stop()
    await two.mesh.stop()


async def test_nothing_is_told_to_whom_the_certificate_does_not_name(
    authority: Authority,
) -> None:
    """At the address of n2 listens n3: n1 says not even its hello."""
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    with capture_logs() as logs:
        other = await start_peer("n2", ports, tls=peer_tls(authority, "n3"))
        one = await start_peer("n1", ports, tls=peer_tls(authority, "n1"))
        await eventually(lambda: [log for log in logs if log.get("reason") == WRONG_CERTIFICATE])
    assert {log["dialled"] for log in logs if log.get("reason") == WRONG_CERTIFICATE} == {True}
    assert one.raft.events == other.raft.events == []
    assert other.mesh.known == {}
    await one.mesh.stop()
    await other.mesh.stop()


@pytest.mark.parametrize("what", ["foreign", "expired", "client"])
async def test_a_certificate_that_is_not_to_be_trusted(
    authority: Authority, tmp_path: Path, what: str
) -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    two = await start_peer("n2", ports, tls=peer_tls(authority, "n2"))
    if what == "foreign":
        made = authority_of(tmp_path / "foreign")
        issue(made, "n1")
    elif what == "expired":
        made = authority
        issue_expired(made, "n1")
    else:
        made = authority
        authority.issue("reports", client=True, days=3)
        authority.certificate("reports").replace(authority.certificate("n1"))
        authority.key("reports").replace(authority.key("n1"))
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    stranger.load_cert_chain(made.certificate("n1"), made.key("n1"))
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", two.port, ssl=stranger)
        writer.write(framed(handshake.encode(hello_of("n1").to("n2", Purpose.RAFT))))
        with contextlib.suppress(OSError):
            heard = await reader.read()
            assert b"refused" in heard if what == "client" else heard == b""
        await eventually(
            lambda: [
                log
                for log in logs
                if log["event"] == "tls_refused" or log.get("reason") == WRONG_CERTIFICATE
            ]
        )
    writer.close()
    assert two.raft.events == []
    await two.mesh.stop()


async def test_nodes_get_certificates_one_after_the_other(authority: Authority) -> None:
    """From three in the clear to three that insist on TLS: each is replaced alone, and is linked to
    all others, whatever they are by then."""
    ports = dict(zip(("n1", "n2", "n3"), free_ports(3), strict=True))
    peers = {name: await start_peer(name, ports) for name in ports}
    for optional in (True, False):
        for name in ports:
            await peers[name].mesh.stop()
            tls = peer_tls(authority, name, optional=optional)
            peers[name] = await start_peer(name, ports, tls=tls)
            for one, other in itertools.permutations(ports, 2):
                await eventually(lambda o=one, p=other: peers[o].link(p))
    for one, other in itertools.permutations(ports, 2):
        link = peers[one].link(other)
        assert link is not None
        assert link.certified == {f"raftflow:test/{other}"}
    for peer in peers.values():
        await peer.mesh.stop()


async def test_new_certificates_of_a_new_authority_break_no_link(authority: Authority) -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    tls = {name: peer_tls(authority, name) for name in ports}
    one = await start_peer("n1", ports, tls=tls["n1"])
    two = await start_peer("n2", ports, tls=tls["n2"])
    await eventually(lambda: one.link("n2") and two.link("n1"))
    first = one.link("n2")
    authority.succeed(days=30)
    for name in ("n1", "n2", "n3"):
        for pair in tls.values():
            pair.refresh()
        authority.renew(name, days=10)
    authority.drop_old()
    for pair in tls.values():
        pair.refresh()
    assert one.link("n2") is first
    assert first.send(b"still here")
    await eventually(lambda: two.raft.frames == [("n1", b"still here")])
    first.close("stopping")
    await eventually(lambda: one.link("n2") is not None and one.link("n2") is not first)
    await one.mesh.stop()
    await two.mesh.stop()


@pytest.mark.parametrize("returning", ["n1", "n2"])
async def test_an_old_copy_is_refused_and_learns_why(tmp_path: Path, returning: str) -> None:
    """Whichever side dials."""
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    other = "n2" if returning == "n1" else "n1"
    (tmp_path / other).mkdir()
    staying = await start_peer(
        other,
        ports,
        hello=replace(hello_of(other), boots=1),
        ledger=PeerLedger.open(str(tmp_path / other)),
    )

    async def start(boots: int, boot_id: str) -> Peer:
        hello = replace(hello_of(returning, boot_id=boot_id), boots=boots)
        directory = tmp_path / boot_id
        directory.mkdir()
        return await start_peer(
            returning, ports, hello=hello, ledger=PeerLedger.open(str(directory))
        )

    newest = await start(5, "newest")
    await eventually(lambda: staying.link(returning) and newest.link(other))
    await newest.mesh.stop()
    old = await start(5, "copy")
    try:
        await eventually(lambda: (other, "stale_data") in old.refusals)
        assert staying.link(returning) is None
        assert old.link(other) is None
    finally:
        await old.mesh.stop()
        await staying.mesh.stop()


async def test_what_comes_while_a_start_is_written_down_is_kept(tmp_path: Path) -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    peers = []
    for each in ports:
        (tmp_path / each).mkdir()
        ledger = PeerLedger.open(str(tmp_path / each))
        hello = replace(hello_of(each), boots=1)
        peers.append(await start_peer(each, ports, hello=hello, ledger=ledger))
    one, other = peers
    try:
        link = await eventually(lambda: one.link("n2"))
        for number in range(50):
            assert link.send(b"%d" % number)
        await eventually(lambda: len(other.raft.frames) == 50)
        assert other.raft.frames == [("n1", b"%d" % number) for number in range(50)]
    finally:
        for each in peers:
            await each.mesh.stop()


async def test_members_come_and_go_while_it_runs() -> None:
    ports = dict(zip(("n1", "n2", "n3"), free_ports(3), strict=True))
    first = {name: ports[name] for name in ("n1", "n2")}
    peers = {name: await start_peer(name, first) for name in first}
    peers["n3"] = await start_peer("n3", ports)
    try:
        one, three = peers["n1"], peers["n3"]
        await eventually(lambda: one.link("n2"))
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        one.mesh.follow({n: addresses[n] for n in ("n2", "n3")}, configuration=3)
        await eventually(lambda: one.link("n3") and three.link("n1"))
        assert three.mesh.known["n1"].configuration == 3
        before = one.link("n2")
        one.mesh.follow({"n2": addresses["n2"]}, configuration=5)
        await eventually(lambda: one.link("n3") is None)
        assert one.link("n2") is before
        assert ("down", "n3") in one.raft.events  # it did not die
    finally:
        for peer in peers.values():
            await peer.mesh.stop()


@pytest.mark.slow
async def test_a_node_that_was_away_while_others_joined_is_called_by_them() -> None:
    """n1 should call, but knows of nobody who is still there."""
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    away = await start_peer("n1", {"n1": ports["n1"]})
    joined = await start_peer("n2", ports, hello=replace(hello_of("n2"), configuration=4))
    try:
        for purpose in Purpose:
            await eventually(lambda p=purpose: away.link("n2", p), within_s=8.0)
    finally:
        await away.mesh.stop()
        await joined.mesh.stop()
