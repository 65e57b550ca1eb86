"""What `why` says of certificates that are over, soon over or not trusted, on real nodes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from certs import HOSTS, authority_of, issue, issue_expired, serve_flags
from dev_cluster import wait_for
from node_processes import Nodes, Process, nodes_in

from raftflow.cluster.cli.authority import Authority

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

THREE = ("n1", "n2", "n3")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs", "shop")
    issue(made, *THREE)
    return made


@pytest.fixture
def nodes(tmp_path: Path, authority: Authority) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as found:
        for each in THREE:
            found[each].trusted = authority.trusted
        yield found


def start(nodes: Nodes, authority: Authority, name: str) -> None:
    flags = ("--cluster-id", "shop", *serve_flags(authority, name))
    nodes[name].start("--peers", nodes.peers(*THREE), *flags)


def causes(node: Process, subject: str) -> list[str]:
    answer = node.call("GET", f"/api/why/{subject}")
    return [link["cause"] for link in answer["links"]]


def told(node: Process, subject: str, *expected: str) -> list[dict[str, object]]:
    wait_for(
        f"why {subject} names {expected}",
        lambda: causes(node, subject) == list(expected),
        timeout=90,
    )
    links: list[dict[str, object]] = node.call("GET", f"/api/why/{subject}")["links"]
    return links


def hurry(node: Process) -> None:
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)


def test_certificates_that_are_over_soon_over_or_of_another_authority(
    nodes: Nodes, authority: Authority, tmp_path: Path
) -> None:
    one = nodes["n1"]
    issue_expired(authority, "n3")
    authority.issue("n2", hosts=HOSTS, days=5)
    for each in THREE:
        start(nodes, authority, each)
    wait_for("two of three serve", lambda: one.is_ready() and nodes["n2"].is_ready())

    seen, reason = told(one, "node/n3", "node_unreachable", "certificate_expired")
    assert "expired" in str(reason["evidence"])
    assert "raftflow cert rotate" in str(reason["next"])
    assert str(seen["evidence"]).count("n3") >= 1
    soon = one.call("GET", "/api/why/node/n2")["links"][0]
    beside = [soon, *soon["evidence"].get("also", [])]
    [link] = [each for each in beside if each["cause"] == "certificate_expires"]
    assert "n2 (api)" in link["says"] or "n2 (peer)" in link["says"]

    issue(authority, "n3")  # what `next` says
    hurry(nodes["n3"])
    wait_for("n3 is reached", lambda: causes(one, "node/n3")[0] != "node_unreachable", timeout=90)

    nodes["n3"].stop()
    foreign = authority_of(tmp_path / "foreign", "shop")
    issue(foreign, "n3")
    start(nodes, foreign, "n3")
    _, reason = told(one, "node/n3", "node_unreachable", "tls_refused")
    assert "raftflow cert issue" in str(reason["next"])
