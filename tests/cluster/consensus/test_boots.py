from __future__ import annotations

import asyncio
import errno
import struct
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from eventually import eventually
from peers import hello_of, start_peer
from ports import free_ports

from raftflow.cluster.consensus.boots import BootCount
from raftflow.cluster.consensus.handshake import Boot
from raftflow.cluster.consensus.identity import claim_directory, read_identity
from raftflow.cluster.consensus.ledger import PeerLedger


class Ended(Exception):
    pass


def never(error: BaseException) -> NoReturn:
    raise Ended from error


async def test_the_count_goes_on_is_kept_and_is_told(tmp_path: Path) -> None:
    ports = dict(zip(("n1", "n2"), free_ports(2), strict=True))
    peers, counts, ledgers = {}, {}, {}
    for each in ports:
        directory = str(tmp_path / each)
        claim = claim_directory(directory, cluster_id="test", node_id=each)
        claim.lock.release()
        hello = replace(hello_of(each), boots=1, incarnation=claim.identity.incarnation)
        ledgers[each] = PeerLedger.open(directory)
        peers[each] = await start_peer(each, ports, hello=hello, ledger=ledgers[each])
        counts[each] = BootCount(
            data_dir=directory,
            identity=claim.identity,
            mesh=peers[each].mesh,
            channel=peers[each].channel,
            ledger=ledgers[each],
            fatal=never,
            period_s=0.02,
        )
    try:
        await eventually(lambda: peers["n1"].channel.connected("n2"))
        counts["n2"].start()
        await eventually(lambda: (ledgers["n1"].newest("n2") or Boot("", 0, "")).boots > 3)
        await counts["n2"].stop()
        told = ledgers["n1"].newest("n2")
        own = read_identity(str(tmp_path / "n2"))
        assert told is not None
        assert own is not None
        assert own.boots >= told.boots
        await ledgers["n1"].written()
        kept = PeerLedger.open(str(tmp_path / "n1")).newest("n2")
        assert kept is not None
        assert 3 < kept.boots <= own.boots
    finally:
        for peer in peers.values():
            await peer.mesh.stop()


async def test_a_disk_that_fails_ends_the_node(tmp_path: Path) -> None:
    directory = str(tmp_path / "n1")
    claim = claim_directory(directory, cluster_id="test", node_id="n1")
    claim.lock.release()
    peer = await start_peer("n1", dict(zip(("n1", "n2"), free_ports(2), strict=True)))
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    count = BootCount(
        data_dir=str(tmp_path / "gone"),
        identity=claim.identity,
        mesh=peer.mesh,
        channel=peer.channel,
        ledger=PeerLedger.open(directory),
        fatal=ended.set_result,  # type: ignore[arg-type]
        period_s=0.01,
    )
    count.start()
    try:
        assert isinstance(await asyncio.wait_for(ended, 5), FileNotFoundError)
    finally:
        await peer.mesh.stop()


async def test_a_disk_that_fails_while_a_peer_counts_ends_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path / "n1")
    claim = claim_directory(directory, cluster_id="test", node_id="n1")
    claim.lock.release()
    peer = await start_peer("n1", dict(zip(("n1", "n2"), free_ports(2), strict=True)))
    ended: list[BaseException] = []
    count = BootCount(
        data_dir=directory,
        identity=claim.identity,
        mesh=peer.mesh,
        channel=peer.channel,
        ledger=PeerLedger.open(directory),
        fatal=ended.append,  # type: ignore[arg-type]
    )
    try:
        peer.mesh.known["n2"] = replace(hello_of("n2"), boots=1)

        def fails(_path: str, _content: bytes) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr("raftflow.cluster.consensus.ledger.replace_durably", fails)
        await count._on_count("n2", struct.pack("<Q", 2))
        assert [error.errno for error in ended if isinstance(error, OSError)] == [errno.EIO]
    finally:
        await peer.mesh.stop()
