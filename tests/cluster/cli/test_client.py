import http.client
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_api import Call, Reply, serving

from raftflow.cluster.cli.client import (
    DEADLINE_S,
    Client,
    payload_bytes,
    payload_field,
    wait_until_closed,
    workflow_path,
)
from raftflow.cluster.cli.errors import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    CommandError,
    ServerError,
    Unreachable,
)
from raftflow.cluster.cli.main import cli

UNAVAILABLE: Reply = (503, {"error": "no leader", "maybe_applied": False})


@dataclass(frozen=True)
class Issued:
    certificate: Path
    server: ssl.SSLContext


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    """A certificate for 127.0.0.1 that no system trusts."""
    home = tmp_path_factory.mktemp("tls")
    certificate, key = home / "certificate.pem", home / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"),
            *("-subj", "/CN=proxy", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Issued(certificate, server)


@pytest.fixture
def dead_address() -> str:
    """Bound and never listening: whoever connects is refused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_headers_and_query() -> None:
    with serving(lambda _: (200, {"ok": True})) as fake:
        client = Client([fake.address], namespace="shop", token="secret")
        assert client.get("/api/workflows", q="a b&c", status="", limit=5) == {"ok": True}
    (call,) = fake.calls
    assert call.target == "/api/workflows?q=a%20b%26c&limit=5"
    assert call.headers["X-Workflowd-Namespace"] == "shop"
    assert call.headers["Authorization"] == "Bearer secret"


def test_a_token_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: (200, {"namespaces": []})) as fake:
        monkeypatch.setenv("RAFTFLOW_ADDRESS", fake.address)
        monkeypatch.setenv("RAFTFLOW_TOKEN", "of a file\n")
        assert CliRunner().invoke(cli, ["namespace", "list"]).exit_code == 0
        for name, field in (("TOKEN", "--token"), ("NAMESPACE", "--namespace")):
            monkeypatch.setenv(f"RAFTFLOW_{name}", "hush\nsecret")
            done = CliRunner().invoke(cli, ["namespace", "list"])
            assert done.exit_code == 2
            assert f"{field}: character 5 of 11 is a line break" in done.output
            assert "hush" not in done.output
            monkeypatch.delenv(f"RAFTFLOW_{name}")
    assert [call.headers["Authorization"] for call in fake.calls] == ["Bearer of a file"]


@pytest.mark.parametrize("workflow_id", ["a/b", "q'\"", "a b", "🦆", "<script>", "%2F?#{id}"])
def test_any_id_is_one_path_segment(workflow_id: str) -> None:
    from urllib.parse import unquote

    segments = workflow_path(workflow_id, "signal").split("/")
    assert [unquote(each) for each in segments] == ["", "api", "workflows", workflow_id, "signal"]


@pytest.mark.parametrize("content", [b"", b"plain", "ü🦆\n".encode(), b"\xff\x00", b"\xed\xa0\x80"])
def test_payloads_arrive_byte_for_byte(content: bytes) -> None:
    assert payload_bytes(payload_field("input", content), "input") == content


def test_fail_over_keeps_the_request_id(dead_address: str) -> None:
    with serving(lambda _: UNAVAILABLE) as cut_off, serving(lambda _: (201, {"run_id": "r"})) as up:
        client = Client([dead_address, cut_off.address, up.address])
        assert client.post("/api/workflows", {"type": "Order"}) == {"run_id": "r"}
        client.post("/api/workflows", {"type": "Order"})
    assert len(cut_off.calls) == 1, "the client stays with the node that answered"
    first, second = up.calls
    assert first.body["request_id"] == cut_off.calls[0].body["request_id"]
    assert first.body["request_id"] != second.body["request_id"]


def test_tls_in_front_with_a_ca_of_its_own(issued: Issued) -> None:
    with serving(lambda _: (200, {"ok": 1}), tls=issued.server) as fake:
        client = Client([f"https://{fake.address}/"], ca_file=issued.certificate, token="t")
        assert client.get("/api/cluster") == {"ok": 1}
        assert client.get("/api/cluster") == {"ok": 1}
    assert fake.calls[1].headers["Authorization"] == "Bearer t"


def test_a_certificate_that_nobody_vouches_for(issued: Issued) -> None:
    with (
        serving(lambda _: (200, {"ok": 1}), tls=issued.server) as fake,
        pytest.raises(Unreachable, match=r"certificate is not trusted: .*named with --ca-file"),
    ):
        Client([f"https://{fake.address}"], deadline_s=60).get("/api/cluster")
    assert not fake.calls


def test_a_node_that_speaks_tls_is_asked_in_the_clear(issued: Issued) -> None:
    with (
        serving(lambda _: (200, {"ok": 1}), tls=issued.server) as fake,
        pytest.raises(Unreachable, match=r"speaks TLS is named https://HOST:PORT"),
    ):
        Client([fake.address], deadline_s=0.1).get("/api/cluster")
    assert not fake.calls


def test_a_node_that_asks_for_a_certificate(issued: Issued) -> None:
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(issued.certificate, issued.certificate.with_name("key.pem"))
    asking.load_verify_locations(issued.certificate)
    asking.verify_mode = ssl.CERT_REQUIRED
    with (
        serving(lambda _: (200, {"ok": 1}), tls=asking) as fake,
        pytest.raises(Unreachable) as told,
    ):
        Client([f"https://{fake.address}"], ca_file=issued.certificate, deadline_s=0.1).get(
            "/api/x"
        )
    assert not fake.calls
    assert "--cert-file and --key-file" in str(told.value)


@pytest.mark.parametrize(("scheme", "hint"), [("https", "--cert-file"), ("http", "speaks TLS is")])
@pytest.mark.parametrize(
    "end",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        ConnectionAbortedError(103, "Software caused connection abort"),
        BrokenPipeError(32, "Broken pipe"),
        http.client.RemoteDisconnected("Remote end closed connection without response"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"),
        ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] certificate required"),
    ],
    ids=lambda end: type(end).__name__,
)
def test_however_a_node_hangs_up_the_hint_is_the_same(
    end: OSError, scheme: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "_attempt", lambda *_: end)
    with pytest.raises(Unreachable, match=hint):
        Client([f"{scheme}://127.0.0.1:1"], deadline_s=0.01).get("/api/x")


def test_a_ca_file_that_is_none(tmp_path: Path) -> None:
    for content, reason in ((None, "No such file"), ("x", "holds no certificate")):
        file = tmp_path / "ca.pem"
        if content:
            file.write_text(content)
        with pytest.raises(ValueError, match=f"--ca-file {file}: .*{reason}"):
            Client(["https://127.0.0.1"], ca_file=file)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_node_is_passed_over(status: int) -> None:
    with serving(lambda _: (status, b"<html>")) as proxy, serving(lambda _: (200, {})) as up:
        assert Client([proxy.address, up.address]).get("/api/cluster") == {}


def test_an_election_is_waited_out() -> None:
    replies = [UNAVAILABLE, UNAVAILABLE, (200, {"fine": 1})]
    with serving(lambda _: replies.pop(0)) as fake:
        assert Client([fake.address]).get("/api/cluster") == {"fine": 1}


def test_a_delay_is_told_once(dead_address: str) -> None:
    replies = [UNAVAILABLE, UNAVAILABLE, (200, {"fine": 1})]
    told: list[str] = []
    with serving(lambda _: replies.pop(0)) as fake:
        client = Client([fake.address, dead_address], on_delay=told.append)
        assert client.get("/api/cluster") == {"fine": 1}
    (line,) = told
    assert line == f"no node could serve the call: {fake.address}: no leader; retrying"


def test_nobody_listens_is_said_at_once(dead_address: str) -> None:
    with pytest.raises(Unreachable, match=f"{dead_address}: Connection refused") as caught:
        Client([dead_address, dead_address]).get("/api/health")
    assert caught.value.status == EXIT_UNREACHABLE


def test_no_leader_for_the_whole_deadline() -> None:
    with (
        serving(lambda _: UNAVAILABLE) as fake,
        pytest.raises(Unreachable, match=r"^no node could serve.*no leader"),
    ):
        Client([fake.address], deadline_s=0.05).get("/api/cluster")


def test_the_last_attempt_does_not_hide_what_an_earlier_one_left_in_the_air() -> None:
    replies: list[Reply] = [(503, {"error": "lost it", "maybe_applied": True}), UNAVAILABLE]
    with (
        serving(lambda _: replies.pop(0) if len(replies) > 1 else replies[0]) as fake,
        pytest.raises(Unreachable, match=r"no leader; an earlier try may still be applied"),
    ):
        Client([fake.address], deadline_s=0.5).post("/api/workflows", {})


def test_two_nodes_without_a_leader_speak_for_the_rest(dead_address: str) -> None:
    with (
        serving(lambda _: UNAVAILABLE) as first,
        serving(lambda _: UNAVAILABLE) as second,
        serving(lambda _: UNAVAILABLE) as third,
    ):
        every = [dead_address, first.address, second.address, third.address]
        with pytest.raises(Unreachable):
            Client(every, deadline_s=0).get("/api/cluster")
    assert [len(each.calls) for each in (first, second, third)] == [1, 1, 0]


def test_a_node_that_hangs_does_not_use_up_the_turn_of_the_others() -> None:
    with socket.socket() as hung, serving(lambda _: (200, {"fine": 1})) as up:
        hung.bind(("127.0.0.1", 0))
        hung.listen()
        stuck = f"127.0.0.1:{hung.getsockname()[1]}"
        client = Client([stuck, up.address], deadline_s=0, answer_timeout_s=0.05)
        assert client.get("/api/cluster") == {"fine": 1}


@pytest.mark.slow
def test_no_leader_is_said_after_one_retry() -> None:
    """A node says so after its five seconds (here: one); a user is not kept for a third."""

    def respond(_: Call) -> Reply:
        time.sleep(1)
        return UNAVAILABLE

    with serving(respond) as fake, pytest.raises(Unreachable):
        Client([fake.address], deadline_s=DEADLINE_S / 5).get("/api/cluster")
    assert len(fake.calls) == 2


def test_a_refusal_is_no_reason_to_ask_another_node() -> None:
    body = {"error": 'workflow "x" is unknown', "code": "NOT_FOUND", "reason": "RUN_UNKNOWN"}
    with serving(lambda _: (404, body)) as fake, pytest.raises(ServerError) as caught:
        Client([fake.address, fake.address]).get("/api/workflows/x")
    assert (caught.value.http_status, caught.value.status) == (404, EXIT_FAILED)
    assert caught.value.body == body
    assert len(fake.calls) == 1


def test_what_is_no_http_server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = Client([f"127.0.0.1:{listener.getsockname()[1]}"], deadline_s=0)
        import threading

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-x\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unreachable, match="not an HTTP answer"):
            client.get("/api/health")
        thread.join()


@pytest.mark.parametrize("address", ["", "a:b", "ftp://a:1", "https://", "a:99999"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="--address"):
        Client([address])


def run_that_goes_through(*statuses: str) -> Callable[[Call], Reply]:
    left = list(statuses)

    def respond(call: Call) -> Reply:
        if "/history?" in call.target:
            return 204, b""
        return 200, {"run_id": "r1", "history_length": 4, "status": left.pop(0)}

    return respond


def test_waiting_goes_on_through_continue_as_new() -> None:
    with serving(run_that_goes_through("RUNNING", "CONTINUED_AS_NEW", "COMPLETED")) as fake:
        assert wait_until_closed(Client([fake.address]), "x")["status"] == "COMPLETED"
    assert fake.calls[1].target == ("/api/workflows/x/history?run_id=r1&from=5&limit=1&wait=5000")
    seen: list[str] = []
    with serving(run_that_goes_through("RUNNING", "COMPLETED")) as fake:
        wait_until_closed(
            Client([fake.address]), "x", on_progress=lambda run: seen.append(run["status"])
        )
    assert seen == ["RUNNING", "COMPLETED"]
    with serving(run_that_goes_through("CONTINUED_AS_NEW")) as fake:
        run = wait_until_closed(Client([fake.address]), "x", run_id="r1")
    assert run["status"] == "CONTINUED_AS_NEW"


def test_a_run_that_is_closed_already_shows_no_progress() -> None:
    with serving(run_that_goes_through("COMPLETED")) as fake:
        run = wait_until_closed(Client([fake.address]), "x", on_progress=pytest.fail)
    assert run["status"] == "COMPLETED"


def test_waiting_ends_at_its_timeout() -> None:
    with (
        serving(run_that_goes_through("WAITING")) as fake,
        pytest.raises(CommandError, match="x is still WAITING") as caught,
    ):
        wait_until_closed(Client([fake.address]), "x", timeout_s=0)
    assert caught.value.status == EXIT_UNREACHABLE
