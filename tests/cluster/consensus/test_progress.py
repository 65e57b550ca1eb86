from pysyncobj.node import Node

from raftflow.cluster.consensus.progress import LONG_AGO, Following, Mode, Progress
from raftflow.cluster.consensus.types import SnapshotManifest


def test_a_new_leadership_knows_nothing() -> None:
    peer = Progress(Node("b"))
    peer.match_index, peer.mode, peer.connected = 9, Mode.STREAMING, True
    peer.lead(next_index=12, now=5.0)
    assert (peer.match_index, peer.next_index, peer.mode) == (0, 12, Mode.PROBING)
    assert peer.last_contact == 5.0
    assert peer.connected


def test_a_probe_forgets_what_is_under_way_but_not_what_was_acknowledged() -> None:
    peer = Progress(Node("b"))
    peer.match_index = 9
    peer.inflight.append(12)
    peer.offer = SnapshotManifest(index=7, term=2, size=10, sha256="ab", snapshot_id="a-7")
    peer.probe(10)
    assert peer.match_index == 9
    assert (peer.next_index, len(peer.inflight), peer.offer, peer.probe_sent) == (
        10,
        0,
        None,
        False,
    )
    assert peer.sent_at == LONG_AGO


def test_a_new_connection_may_lead_to_an_older_disk() -> None:
    peer = Progress(Node("b"))
    peer.match_index, peer.next_index, peer.mode = 9, 12, Mode.STREAMING
    peer.reconnect()
    assert (peer.match_index, peer.next_index, peer.mode) == (0, 10, Mode.PROBING)
    peer.reconnect()
    assert peer.next_index == 10


def test_a_new_term_begins_unverified() -> None:
    assert Following().verified < 0
