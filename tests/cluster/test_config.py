from pathlib import Path
from typing import Any

import pytest

from raftflow.cluster.config import (
    DERIVED,
    ActivityPolicy,
    Address,
    Config,
    ConfigError,
    Limits,
    Peer,
)

PEERS = tuple(Peer.parse(f"n{i}=127.0.0.{i}:9233") for i in (3, 1, 2))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8233", "127.0.0.1", 8233),
        (":8233", "0.0.0.0", 8233),
        ("[::1]:1", "::1", 1),
        ("node-1.example:65535", "node-1.example", 65535),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@pytest.mark.parametrize("text", ["", "host", "host:", "host:0", "host:65536", "::1:80", "h:٣"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(text)


def test_a_node_without_peers_is_a_cluster_of_one() -> None:
    config = Config()
    assert config.voters == (Peer("n1", Address("127.0.0.1", 9233)),)


def test_addresses_follow_the_own_entry_in_peers() -> None:
    config = Config(node_id="n2", peers=PEERS, http_addr=Address("0.0.0.0", 8000))
    assert [peer.id for peer in config.voters] == ["n1", "n2", "n3"]
    assert config.raft_addr == config.advertise_raft_addr == Address("127.0.0.2", 9233)
    assert config.advertise_http_addr == Address("127.0.0.2", 8000)
    assert config.advertise_grpc_addr == Address("127.0.0.1", 7233)


def test_cluster_id_is_the_same_on_every_node() -> None:
    ids = {Config(node_id=p.id, peers=order).cluster_id for p in PEERS for order in (PEERS,)}
    ids.add(Config(node_id="n1", peers=tuple(reversed(PEERS))).cluster_id)
    assert len(ids) == 1
    assert Config(node_id="n1").cluster_id != Config(node_id="n2").cluster_id


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"node_id": "../n1"}, "node_id"),
        ({"node_id": "n9", "peers": PEERS}, "node_id"),
        ({"peers": PEERS + PEERS[:1]}, "peers"),
        ({"peers": (PEERS[1], Peer("n9", PEERS[1].raft))}, "peers"),
        ({"cluster_id": "a b"}, "cluster_id"),
        ({"grpc_addr": Address("127.0.0.1", 8233)}, "grpc_addr"),
        ({"advertise_http_addr": Address("0.0.0.0", 1)}, "advertise_http_addr"),
        ({"peers": PEERS, "advertise_raft_addr": Address("a", 1)}, "advertise_raft_addr"),
        ({"heartbeat_ms": 300}, "election_min_ms"),
        ({"election_max_ms": 400}, "election_max_ms"),
        ({"lease_ms": 0}, "lease_ms"),
        ({"limits": Limits(open_steps=0)}, "limits.open_steps"),
        ({"limits": Limits(payload_bytes=2**30)}, "limits.payload_bytes"),
        ({"log_level": "loud"}, "log_level"),
    ],
)
def test_errors_name_the_field(given: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**given)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_the_object_is_frozen() -> None:
    config = Config(activities={"charge": ActivityPolicy(max_attempts=3)})
    with pytest.raises(AttributeError):
        config.data_dir = Path("elsewhere")  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.activities["charge"] = ActivityPolicy()  # type: ignore[index]


JOIN = (Peer("n1", Address("10.0.0.1", 9233)), Peer("n2", Address("10.0.0.2", 9233)))


def joining(**more: Any) -> Config:
    return Config(**{"node_id": "n4", "join": JOIN, "raft_addr": Address("10.0.0.4", 9233)} | more)


def test_a_node_that_joins_is_no_voter_by_itself() -> None:
    config = joining(cluster_id="shop", http_addr=Address("0.0.0.0", 8233))
    assert [peer.id for peer in config.voters] == ["n1", "n2"]
    assert config.advertise_raft_addr == Address("10.0.0.4", 9233)
    assert config.advertise_http_addr == Address("10.0.0.4", 8233)
    assert not config.cluster_id_derived


def test_a_joining_nodes_cluster_has_its_name_already() -> None:
    assert (joining().cluster_id, joining().cluster_id_derived) == ("", True)
    assert Config(node_id="n1").cluster_id_derived


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"peers": PEERS, "node_id": "n1"}, "join"),
        ({"node_id": "n2"}, "join"),
        ({"raft_addr": DERIVED}, "raft_addr"),
        ({"raft_addr": Address("0.0.0.0", 9233)}, "advertise_raft_addr"),
        ({"join": (*JOIN, JOIN[0])}, "join"),
        ({"join": (Peer("n 1", Address("h", 1)),)}, "join"),
    ],
)
def test_a_join_that_cannot_be(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        joining(**change)
    assert caught.value.field == named


@pytest.mark.parametrize(
    ("settings", "on", "reached"),
    [
        ({}, False, False),
        ({"auth": "on"}, True, False),
        ({"auth_token_file": "tokens"}, True, False),
        ({"http_addr": Address.parse(":8233")}, False, True),
        ({"grpc_addr": Address("10.0.0.1", 7233), "auth": "off"}, False, True),
        ({"http_addr": Address("localhost", 1), "grpc_addr": Address("::1", 1)}, False, False),
        ({"http_addr": Address("node-1.example", 1)}, False, True),
    ],
)
def test_who_is_asked_and_who_gets_there(settings: Any, on: bool, reached: bool) -> None:
    config = Config(**settings)
    assert (config.auth_on, config.reached_by_others) == (on, reached)


@pytest.mark.parametrize(
    "settings", [{"auth": "maybe"}, {"auth": "off", "auth_token_file": "tokens"}]
)
def test_auth_that_cannot_be(settings: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**settings)
    assert caught.value.field == "auth"
