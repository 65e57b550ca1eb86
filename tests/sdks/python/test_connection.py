"""Calls against real HTTP servers that reset, hang, lie, answer half and name other leaders."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faulty_node import Node
from needs import need
from sdk_cluster import FakeCluster, Refused

from raftflow_sdk.connection import Address, Connection, path_id
from raftflow_sdk.errors import AlreadyExists, ApiError, NotFound, Unavailable


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


@pytest.fixture
def other(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


def dead_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def first_at(connection: Connection, turn: int) -> Connection:
    """Threads start at a random address; these tests say which."""
    connection._next_turn = turn
    return connection


def start(connection: Connection, workflow_id: str = "w", **options: float) -> object:
    body = {"type": "Order", "workflow_id": workflow_id, "request_id": f"r-{workflow_id}"}
    return connection.call("POST", "/api/workflows", body, **options)  # type: ignore[arg-type]


def test_a_connection_is_kept(node: Node) -> None:
    connection = Connection([node.address])
    for _ in range(5):
        assert connection.call("GET", "/api/health") == {"status": "ok"}
    assert node.connections == 1


def test_each_thread_has_its_own(node: Node) -> None:
    connection = Connection([node.address])
    threads = [
        threading.Thread(target=connection.call, args=("GET", "/api/health")) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.connections == 3


def test_threads_spread_over_the_nodes(node: Node, other: Node) -> None:
    connection = Connection([node.address, other.address])
    for _ in range(4):
        thread = threading.Thread(target=connection.call, args=("GET", "/api/health"))
        thread.start()
        thread.join()
    assert len(node.served) == len(other.served) == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["reset", "reset after", "half", "html", "503", "429"])
def test_a_fault_is_outlived_with_one_effect(cluster: FakeCluster, node: Node, fault: str) -> None:
    connection = Connection([node.address])
    connection.call("GET", "/api/health")
    node.faults.extend([("/api/workflows", fault)] * 2)
    assert start(connection) == {"workflow_id": "w", "run_id": "run-1", "started": True}
    assert len(cluster.runs) == 1


def test_a_kept_connection_that_was_closed_is_no_news(node: Node) -> None:
    """The server closes idle connections; asking again on a fresh one is not a retry."""
    connection = Connection([node.address])
    connection.call("GET", "/api/health")
    node.faults.append(("/api/health", "reset"))
    assert connection.call("GET", "/api/health", retry_for=0)


def test_a_dead_node_is_left_for_the_next(node: Node) -> None:
    connection = first_at(Connection([dead_address(), node.address]), 0)
    began = time.monotonic()
    assert connection.call("GET", "/api/health")
    assert time.monotonic() - began < 1.0
    assert connection.call("GET", "/api/health", retry_for=0), "it stays with the node that serves"


def test_a_node_that_dies_is_left_for_the_next(cluster: FakeCluster, other: Node) -> None:
    with Node(cluster) as node:
        connection = first_at(Connection([node.address, other.address]), 0)
        connection.call("GET", "/api/health")
    assert start(connection)
    assert other.served


def test_the_named_leader_is_asked_next(cluster: FakeCluster, node: Node, other: Node) -> None:
    """It need not be in the list."""
    node.fault_always = "503"
    node.leader_http = f"127.0.0.1:{other.port}"
    connection = Connection([node.address])
    assert start(connection)
    assert start(connection, "w2")
    assert len(node.served) == 1
    assert len(other.served) == 2


def test_when_the_named_leader_is_gone_the_list_is_asked(node: Node) -> None:
    node.leader_http = dead_address().removeprefix("http://")
    node.faults.append(("/api/workflows", "503"))
    connection = Connection([node.address])
    assert start(connection)
    assert node.served == ["POST /api/workflows"] * 2


@pytest.mark.parametrize("fault", ["503 later", "retry-after header", "429"])
def test_it_waits_as_long_as_it_is_asked(node: Node, fault: str) -> None:
    node.faults.append(("/api/workflows", fault))
    began = time.monotonic()
    assert start(Connection([node.address]))
    assert time.monotonic() - began >= 0.2


def test_other_nodes_are_asked_before_it_waits(node: Node, other: Node) -> None:
    node.fault_always = "503 later"
    connection = first_at(Connection([node.address, other.address]), 0)
    began = time.monotonic()
    assert start(connection)
    assert time.monotonic() - began < 0.2


def test_a_node_that_hangs_is_left(node: Node, other: Node) -> None:
    node.fault_always = "hang"
    connection = first_at(Connection([node.address, other.address]), 0)
    assert start(connection, timeout=0.2)
    assert other.served


@pytest.mark.parametrize(
    ("fault", "maybe_applied"),
    [("503", False), ("reset", True), ("reset after", True), ("half", True)],
)
def test_when_nobody_answers_it_says_what_it_knows(
    node: Node, fault: str, maybe_applied: bool
) -> None:
    node.fault_always = fault
    with pytest.raises(Unavailable, match=f"127.0.0.1:{node.port}") as caught:
        start(Connection([node.address]), retry_for=0.2)
    assert caught.value.maybe_applied is maybe_applied


def test_what_reached_nobody_was_not_applied() -> None:
    with pytest.raises(Unavailable, match="refused") as caught:
        start(Connection([dead_address()]), retry_for=0.1)
    assert caught.value.maybe_applied is False


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_ARGUMENT", ApiError),
        (401, "UNAUTHENTICATED", ApiError),
        (404, "NOT_FOUND", NotFound),
        (409, "ALREADY_EXISTS", AlreadyExists),
        (500, "DATA_LOSS", ApiError),
    ],
)
def test_a_refusal_is_final(
    cluster: FakeCluster, node: Node, status: int, code: str, kind: type[ApiError]
) -> None:
    refusal = Refused(status, "no", code=code, reason="R", run_id="run-9", cancelled=True)
    cluster.refusals.append(("/api/workflows", refusal))
    with pytest.raises(kind, match="POST /api/workflows: no") as caught:
        start(Connection([node.address]))
    assert (caught.value.status, caught.value.code, caught.value.reason) == (status, code, "R")
    assert caught.value.run_id == "run-9"
    assert caught.value.cancelled
    assert len(node.served) == 1


def test_a_poll_that_ends_empty_is_none(node: Node, cluster: FakeCluster) -> None:
    cluster.park = 0.05
    query = {"types": "Order", "worker_id": "w"}
    assert Connection([node.address]).poll("/api/workflow-tasks", query) is None


def test_hanging_up_ends_a_poll_and_keeps_its_task(node: Node, cluster: FakeCluster) -> None:
    """Half-closed: what the server has sent still arrives."""
    cluster.park = 2.0
    node.sees_hang_ups = False
    connection = Connection([node.address])
    got: list[object] = []
    query = {"types": "Order", "worker_id": "w"}
    poll = threading.Thread(
        target=lambda: got.append(connection.poll("/api/workflow-tasks", query))
    )
    poll.start()
    cluster.wait(lambda: bool(cluster.calls))
    connection.hang_up()
    cluster.start("Order", "w")
    poll.join(5)
    assert got[0]["workflow_id"] == "w"  # type: ignore[index]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One that nobody but a test trusts, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *(need("openssl"), "req", "-x509", "-nodes", "-days", "1", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=node"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_hanging_up_over_tls_keeps_the_task_as_well(
    cluster: FakeCluster, certificate: tuple[Path, Path]
) -> None:
    cluster.park = 2.0
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    with Node(cluster, tls=server) as node:
        node.sees_hang_ups = False
        trusting = ssl.create_default_context(cafile=certificate[0])
        connection = Connection([node.address], ssl_context=trusting)
        with ThreadPoolExecutor(1) as pool:
            query = {"types": "Order", "worker_id": "w"}
            poll = pool.submit(connection.poll, "/api/workflow-tasks", query)
            cluster.wait(lambda: bool(cluster.calls))
            connection.hang_up()
            cluster.start("Order", "w", "x" * 200_000)  # more than one read
            assert poll.result(5)["workflow_id"] == "w"


def test_a_certificate_that_is_not_trusted_is_no_node(
    cluster: FakeCluster, certificate: tuple[Path, Path]
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    with (
        Node(cluster, tls=server) as node,
        pytest.raises(Unavailable, match="certificate") as caught,
    ):
        Connection([node.address]).call("GET", "/api/health", retry_for=0)
    assert not caught.value.maybe_applied


def test_after_hanging_up_other_calls_go_on(node: Node) -> None:
    connection = Connection([node.address])
    connection.hang_up()
    assert connection.poll("/api/workflow-tasks", {"types": "Order"}) is None
    assert start(connection)


def test_token_and_namespace_are_headers(cluster: FakeCluster, node: Node) -> None:
    connection = Connection([node.address], token="secret", namespace="shop")
    connection.call("GET", "/api/health")
    assert node.headers["Authorization"] == "Bearer secret"
    assert node.headers["X-Workflowd-Namespace"] == "shop"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://10.0.0.1:8233", "http://10.0.0.1:8233"),
        ("node-1:9000", "http://node-1:9000"),
        ("https://flow.example", "https://flow.example:8233"),
        ("[::1]:8233", "http://[::1]:8233"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(Address.parse(text)) == shown


@pytest.mark.parametrize("text", ["ftp://x:1", "http://", "", "http://x:notaport"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(text)


@pytest.mark.parametrize("addresses", [[], "http://127.0.0.1:8233"])
def test_addresses_are_a_list(addresses: list[str]) -> None:
    with pytest.raises(ValueError, match="list"):
        Connection(addresses)


def test_ids_are_one_path_segment() -> None:
    assert path_id("a/b ?#é") == "a%2Fb%20%3F%23%C3%A9"
