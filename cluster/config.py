"""The configuration of one node: one documented, validated, frozen object.

Every setting is a field here, and nowhere else: its name, type, default and help text. The flags
of `raftflow serve`, the keys of the TOML file, the environment variables, `--print-config` and the
table in docs/configuration.md are all derived from these fields (`config_sources`).
"""

# `setting` is dataclasses.field with a help text, which RUF009 cannot know.
# ruff: noqa: RUF009

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

KIB = 1024
MIB = 1024 * KIB
MAX_VOTERS = 9
# Ids become file names, metric labels and log fields.
ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# A path is the receiver's own affair; without one it is the standard's.
OTLP_ENDPOINT = re.compile(r"https?://[^/\s?#]+(/[^\s?#]*)?")
WILDCARDS = ("", "0.0.0.0", "::")


class ConfigError(Exception):
    """A setting that cannot be used. `field` names it; the message says what would be right."""

    def __init__(self, field_name: str, problem: str, source: str = "") -> None:
        self.field = field_name
        self.problem = problem
        self.source = source
        origin = f" (from {source})" if source else ""
        super().__init__(f"{field_name}{origin}: {problem}" if field_name else problem)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, written `host:port` or `[v6]:port`; `:port` is every interface."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        host, colon, port = text.strip().rpartition(":")
        if not colon or not port.isascii() or not port.isdigit():
            raise ValueError(f"{text!r} is not host:port")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"{text!r}: write an IPv6 address as [address]:port")
        if not 1 <= int(port) <= 65535:
            raise ValueError(f"{text!r}: the port must be 1 to 65535")
        return cls(host or "0.0.0.0", int(port))

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARDS

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


# Stands for "not given": `__post_init__` puts the derived address in its place.
DERIVED = Address("", 0)


@dataclass(frozen=True, slots=True)
class Peer:
    """A voter of the cluster and the address of its Raft port."""

    id: str
    raft: Address

    @classmethod
    def parse(cls, text: str) -> "Peer":
        peer_id, equals, address = text.strip().partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not ID=host:port")
        return cls(peer_id.strip(), Address.parse(address))

    def __str__(self) -> str:
        return f"{self.id}={self.raft}"


def setting(default: Any, help_text: str) -> Any:
    """A field of the configuration with the sentence that documents it."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may ask for. Each over-run names the field, its size and the limit."""

    payload_bytes: int = setting(2 * MIB, "Largest input, output, signal or detail.")
    request_body_bytes: int = setting(8 * MIB, "Largest body of one JSON or gRPC request.")
    header_bytes: int = setting(
        64 * KIB, "First line and headers of one request together; the metadata of a gRPC call."
    )
    connections: int = setting(
        4096, "Open connections to the JSON API of one node, and as many to its gRPC API."
    )
    head_timeout_ms: int = setting(
        10_000, "How long a caller may take for the headers of a request, or for a handshake."
    )
    body_timeout_ms: int = setting(
        60_000, "How long a caller may take to send a body, or to go on reading an answer."
    )
    polls_per_token: int = setting(
        2_000, "Long polls and worker streams of one token that wait on one node."
    )
    token_calls_per_second: int = setting(
        0, "Calls of one token that one node takes in a second; 0: no bound."
    )
    namespace_calls_per_second: int = setting(
        0, "Calls for one namespace that one node takes in a second; 0: no bound."
    )
    history_events: int = setting(50_000, "Events in one history before the run is suspended.")
    history_bytes: int = setting(50 * MIB, "Size of one history before the run is suspended.")
    open_steps: int = setting(2_000, "Steps of one run in flight at once.")
    untaken_signals: int = setting(10_000, "Signals of one run that no wait has taken yet.")
    suggest_continue_as_new_at: int = setting(
        4096, "History length at which workers are advised to continue as new."
    )


@dataclass(frozen=True, slots=True)
class Storage:
    """How much of the log is kept beside the state, and how often state is made durable."""

    segment_bytes: int = setting(64 * MIB, "Size at which a log segment is sealed.")
    log_tail_entries: int = setting(
        10_000, "Log entries kept after compaction, so that a slow follower needs no snapshot."
    )
    checkpoint_interval_ms: int = setting(
        5_000, "How often the state is fsynced, after which the log before it may be dropped."
    )
    scrub_bytes_per_second: int = setting(
        4 * MIB, "How fast log and state are read again in the background to find damage; 0: never."
    )
    scrub_pause_ms: int = setting(3_600_000, "Pause between two passes of that.")


@dataclass(frozen=True, slots=True)
class ActivityPolicy:
    """`[activities.NAME]`: the retry policy of an activity whose command carries none."""

    max_attempts: int = setting(1, "Attempts in all; 0 is without a bound.")
    initial_backoff_ms: int = setting(1000, "Pause before the second attempt.")
    max_backoff_ms: int = setting(0, "Longest pause; 0 is without a cap.")
    backoff_coefficient: float = setting(2.0, "Each pause is the one before it times this.")
    non_retryable_error_types: tuple[str, ...] = setting(
        (), "Error types after which there is no further attempt."
    )
    jitter: float = setting(0.0, "Each step's pauses are longer or shorter by up to this share.")

    def __post_init__(self) -> None:
        for name in ("max_attempts", "initial_backoff_ms", "max_backoff_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(name, "must not be negative")
        if not 1.0 <= self.backoff_coefficient <= 100.0:
            raise ConfigError("backoff_coefficient", "must be 1.0 to 100.0")
        if not 0.0 <= self.jitter <= 1.0:
            raise ConfigError("jitter", "must be 0.0 to 1.0")


@dataclass(frozen=True, slots=True)
class Config:
    node_id: str = setting("n1", "Name of this node; one of the ids in peers.")
    data_dir: Path = setting(Path("raftflow-data"), "Directory that this node alone writes to.")
    peers: tuple[Peer, ...] = setting(
        (), "All voters with their Raft addresses, this node included; empty is a cluster of one."
    )
    join: tuple[Peer, ...] = setting(
        (),
        "Instead of peers, for a node added later: some members' Raft addresses. See"
        " docs/operating.md.",
    )
    cluster_id: str = setting(
        "",
        "Name of the cluster, which nodes prove to each other. Default: that of data_dir, else"
        " derived from peers.",
    )
    http_addr: Address = setting(Address("127.0.0.1", 8233), "JSON API and page.")
    grpc_addr: Address = setting(Address("127.0.0.1", 7233), "gRPC API.")
    raft_addr: Address = setting(
        DERIVED, "Raft and forwarding. Default: this node's entry in peers, else 127.0.0.1:9233."
    )
    metrics_addr: Address = setting(Address("127.0.0.1", 9090), "Prometheus metrics.")
    advertise_http_addr: Address = setting(
        DERIVED, "JSON API as others reach it. Default: http_addr, with the host of peers."
    )
    advertise_grpc_addr: Address = setting(
        DERIVED, "gRPC API as others reach it. Default: grpc_addr, with the host of peers."
    )
    advertise_raft_addr: Address = setting(
        DERIVED, "Raft port as the peers reach it: this node's entry in peers, where there are any."
    )
    advertise_metrics_addr: Address = setting(
        DERIVED, "Metrics as others reach them. Default: metrics_addr, with the host of peers."
    )
    leader_wait_ms: int = setting(
        5000, "How long a call waits inside the cluster for a leader before it gets 503."
    )
    heartbeat_ms: int = setting(50, "Pause between heartbeats of the leader.")
    election_min_ms: int = setting(400, "Shortest silence of the leader that starts an election.")
    election_max_ms: int = setting(800, "Longest silence of the leader that starts an election.")
    lease_ms: int = setting(30_000, "How long a worker holds an activity without a heartbeat.")
    decision_timeout_ms: int = setting(
        10_000, "How long a worker may take for a workflow task before it is offered again."
    )
    auth_token_file: str = setting(
        "",
        "File with one bearer token a line; every call must then carry one. See docs/security.md.",
    )
    auth: str = setting(
        "",
        "on: every call needs a token, also without auth_token_file; off: none does. Default: on"
        " with auth_token_file. See docs/security.md.",
    )
    audit_retention_ms: int = setting(
        90 * 24 * 3_600_000, "How long the audit log keeps who changed what; 0: for ever."
    )
    tls_cert_file: str = setting(
        "",
        "Certificate (PEM, with its chain) of the JSON API, gRPC and metrics; needs"
        " tls_key_file. See docs/security.md.",
    )
    tls_key_file: str = setting("", "Private key of tls_cert_file, without a password.")
    tls_client_ca_file: str = setting(
        "", "Authorities (PEM): who calls must then show a certificate that one of them signed."
    )
    peer_cert_file: str = setting(
        "",
        "Certificate that this node shows the other nodes, in which its name stands"
        " (`raftflow cert issue`); needs peer_key_file and peer_ca_file.",
    )
    peer_key_file: str = setting("", "Private key of peer_cert_file, without a password.")
    peer_ca_file: str = setting(
        "", "Authorities (PEM), one of which must have signed the certificates of the other nodes."
    )
    peer_tls: str = setting(
        "required",
        "Or optional, while the nodes of a running cluster get certificates one after the other:"
        " then a peer may speak in the clear, too.",
    )
    otlp_endpoint: str = setting(
        "",
        "OTLP/HTTP receiver of spans, such as http://127.0.0.1:4318; needs `raftflow[otel]`.",
    )
    log_level: str = setting("info", "debug, info, warning or error.")
    log_format: str = setting("json", "json (one object per line) or text.")
    limits: Limits = field(default_factory=Limits)
    storage: Storage = field(default_factory=Storage)
    activities: Mapping[str, ActivityPolicy] = field(default_factory=dict)
    # Whether the cluster id is only derived: a data directory that has another one is right.
    cluster_id_derived: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "activities", MappingProxyType(dict(self.activities)))
        self._check_identity()
        self._derive()
        self._check_addresses()
        self._check_timing()
        self._check_sizes()
        self._check_tls()

    @property
    def voters(self) -> tuple[Peer, ...]:
        """Those that the cluster is born with, sorted by id; a cluster of one is its own only
        voter, and a node that joins is none."""
        if not self.peers and not self.join:
            return (Peer(self.node_id, self.advertise_raft_addr),)
        return tuple(sorted(self.peers or self.join, key=lambda peer: peer.id))

    @property
    def auth_on(self) -> bool:
        return self.auth == "on" or bool(self.auth_token_file)

    @property
    def reached_by_others(self) -> bool:
        """Whether what is served is open to more than this machine."""
        served = (self.http_addr, self.grpc_addr)
        return not all(address.is_loopback for address in served)

    @property
    def http_scheme(self) -> str:
        return "https" if self.tls_cert_file else "http"

    def _check_tls(self) -> None:
        for names in (
            ("tls_cert_file", "tls_key_file"),
            ("peer_cert_file", "peer_key_file", "peer_ca_file"),
        ):
            missing = [name for name in names if not getattr(self, name)]
            if missing and len(missing) < len(names):
                raise ConfigError(missing[0], f"needed: {', '.join(names)} belong together")
        if self.tls_client_ca_file and not self.tls_cert_file:
            raise ConfigError("tls_client_ca_file", "needs tls_cert_file and tls_key_file")

    def _check_identity(self) -> None:
        _check_id("node_id", self.node_id)
        if self.cluster_id:
            _check_id("cluster_id", self.cluster_id)
        _check_peers("peers", self.peers)
        _check_peers("join", self.join)
        ids = [peer.id for peer in self.peers]
        if self.peers and self.join:
            raise ConfigError(
                "join", "either peers or join: a node is born with a cluster or joins"
            )
        if self.peers and self.node_id not in ids:
            raise ConfigError(
                "node_id",
                f"{self.node_id!r} is not in peers ({', '.join(ids)}); "
                "a node that is added later has join instead of peers",
            )
        if any(peer.id == self.node_id for peer in self.join):
            raise ConfigError("join", f"names this node, {self.node_id}; name others, as peers do")
        if self.join and self.raft_addr == DERIVED:
            raise ConfigError(
                "raft_addr", "needed with join: the address that `raftflow node add` was given"
            )
        if self.join and self.raft_addr.is_wildcard and self.advertise_raft_addr == DERIVED:
            raise ConfigError(
                "advertise_raft_addr", "needed with join where raft_addr is every interface"
            )

    def _derive(self) -> None:
        own = next((peer.raft for peer in self.peers if peer.id == self.node_id), None)
        if self.raft_addr == DERIVED:
            object.__setattr__(self, "raft_addr", own or Address("127.0.0.1", 9233))
        if self.advertise_raft_addr == DERIVED and own:
            object.__setattr__(self, "advertise_raft_addr", own)
        if self.join:
            given = self.advertise_raft_addr
            own = self.raft_addr if given == DERIVED else given
        for name in ("http_addr", "grpc_addr", "raft_addr", "metrics_addr"):
            if getattr(self, f"advertise_{name}") == DERIVED:
                bound: Address = getattr(self, name)
                host = bound.host
                if bound.is_wildcard:
                    host = own.host if own else "127.0.0.1"
                object.__setattr__(self, f"advertise_{name}", Address(host, bound.port))
        if not self.cluster_id:
            object.__setattr__(self, "cluster_id_derived", True)
            if not self.join:  # which joins a cluster that has its id already
                derived = _derived_cluster_id(self.node_id, self.peers)
                object.__setattr__(self, "cluster_id", derived)

    def _check_addresses(self) -> None:
        own = next((peer.raft for peer in self.voters if peer.id == self.node_id), None)
        if own and self.advertise_raft_addr != own:
            raise ConfigError(
                "advertise_raft_addr", f"must be this node's entry in peers, which is {own}"
            )
        taken: dict[Address, str] = {}
        for name in ("http_addr", "grpc_addr", "raft_addr", "metrics_addr"):
            address: Address = getattr(self, name)
            if address in taken:
                raise ConfigError(name, f"{address} is {taken[address]} already")
            taken[address] = name
            advertised: Address = getattr(self, f"advertise_{name}")
            if advertised.is_wildcard:
                raise ConfigError(f"advertise_{name}", f"{advertised}: nobody can connect to this")

    def _check_timing(self) -> None:
        _at_least(self, 0, "leader_wait_ms")
        _at_least(self, 1, "heartbeat_ms")
        _at_least(self, 0, "audit_retention_ms")
        _at_least(self, 100, "lease_ms", "decision_timeout_ms")
        _at_least(self.storage, 100, "checkpoint_interval_ms", prefix="storage.")
        if self.election_min_ms < 2 * self.heartbeat_ms:
            raise ConfigError(
                "election_min_ms", f"must be at least twice heartbeat_ms ({self.heartbeat_ms})"
            )
        if self.election_max_ms <= self.election_min_ms:
            raise ConfigError(
                "election_max_ms", f"must be above election_min_ms ({self.election_min_ms})"
            )

    def _check_sizes(self) -> None:
        unbounded = {"token_calls_per_second", "namespace_calls_per_second"}
        _at_least(self.limits, 0, *unbounded, prefix="limits.")
        _at_least(
            self.limits, 1, *(Limits.__dataclass_fields__.keys() - unbounded), prefix="limits."
        )
        _at_least(self.limits, 1024, "header_bytes", prefix="limits.")
        _at_least(self.limits, 100, "head_timeout_ms", "body_timeout_ms", prefix="limits.")
        _at_least(self.storage, 64 * KIB, "segment_bytes", prefix="storage.")
        if self.storage.segment_bytes > 1024 * MIB:
            raise ConfigError("storage.segment_bytes", f"must be at most {1024 * MIB}")
        _at_least(self.storage, 0, "log_tail_entries", prefix="storage.")
        _at_least(self.storage, 0, "scrub_bytes_per_second", prefix="storage.")
        _at_least(self.storage, 100, "scrub_pause_ms", prefix="storage.")
        if self.limits.payload_bytes > self.limits.request_body_bytes:
            raise ConfigError(
                "limits.payload_bytes",
                f"must not be above limits.request_body_bytes ({self.limits.request_body_bytes})",
            )
        if self.otlp_endpoint and not OTLP_ENDPOINT.fullmatch(self.otlp_endpoint):
            raise ConfigError("otlp_endpoint", "must be http://host:port or https://host:port")
        for name, allowed in (
            ("log_level", ("debug", "info", "warning", "error")),
            ("log_format", ("json", "text")),
            ("auth", ("", "on", "off")),
            ("peer_tls", ("required", "optional")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(name, f"must be one of {', '.join(filter(None, allowed))}")
        if self.auth == "off" and self.auth_token_file:
            raise ConfigError("auth", "is off, and yet there is an auth_token_file")


def _check_peers(name: str, peers: tuple[Peer, ...]) -> None:
    ids = [peer.id for peer in peers]
    for peer_id in ids:
        _check_id(name, peer_id)
    if len(set(ids)) != len(ids):
        raise ConfigError(name, "an id stands twice")
    if len({peer.raft for peer in peers}) != len(ids):
        raise ConfigError(name, "an address stands twice")
    if len(ids) > MAX_VOTERS:
        raise ConfigError(name, f"at most {MAX_VOTERS} nodes; 3 or 5 are usual")


def _check_id(name: str, value: str) -> None:
    if not ID_PATTERN.fullmatch(value):
        raise ConfigError(
            name,
            f"{value!r}: use 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first",
        )


def _at_least(holder: object, least: int, *names: str, prefix: str = "") -> None:
    for name in names:
        if getattr(holder, name) < least:
            raise ConfigError(prefix + name, f"must be at least {least}")


def _derived_cluster_id(node_id: str, peers: tuple[Peer, ...]) -> str:
    """The same on every node: it depends on the set of peers and on nothing local."""
    members = sorted(str(peer) for peer in peers) or [node_id]
    return "c" + hashlib.sha256(",".join(members).encode()).hexdigest()[:16]
