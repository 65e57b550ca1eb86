"""What a shell offers for an argument when Tab is pressed: names that the cluster knows.

What is offered may be run with the next key. So nothing is that a shell would take for more than a
word: of ids, which anybody may choose, only plain ones. And nothing is said when no node answers.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

import click

from raftflow.cluster.cli.client import DEFAULT_ADDRESS, Client

# Whoever presses a key waits no longer.
PATIENCE_S = 1.0
MOST_OFFERED = 100
_PLAIN = frozenset("-_./:@%+,=")

Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def offer(ask: Callable[[Client, str], Iterable[Any]]) -> Offer:
    """A completer of click's, of a function that asks the cluster for names."""

    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        try:
            client = _client(context.params)
            try:
                names = [str(each) for each in ask(client, begun)]
            finally:
                client.close()
        except Exception:  # noqa: BLE001 - a line that is being typed is no place for an error
            return []
        return plain(names, begun)

    return complete


def plain(names: Iterable[str], begun: str) -> list[str]:
    """Those that begin so and that every shell leaves as they are, each once."""
    found = dict.fromkeys(each for each in names if each.startswith(begun) and is_plain(each))
    return list(found)[:MOST_OFFERED]


def is_plain(name: str) -> bool:
    return name[:1].isalnum() and all(
        each in _PLAIN or (each.isalnum() and each.isprintable()) for each in name
    )


def _client(given: dict[str, Any]) -> Client:
    """As the options of the line so far, and the environment, say."""
    text = ",".join(given.get("addresses") or ()) or os.environ.get("RAFTFLOW_ADDRESS", "")
    return Client(
        text.replace(",", " ").split() or [DEFAULT_ADDRESS],
        namespace=given.get("namespace") or "",
        token=given.get("token") or "",
        ca_file=given.get("ca_file"),
        cert_file=given.get("cert_file"),
        key_file=given.get("key_file"),
        deadline_s=0.0,
        connect_timeout_s=PATIENCE_S,
        answer_timeout_s=PATIENCE_S,
    )


def _runs(client: Client, begun: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/workflows", q=begun, limit=MOST_OFFERED)[
        "workflows"
    ]
    return found


def _queues(client: Client, _begun: str) -> Iterable[str]:
    return [each["name"] for each in client.get("/api/queues")["queues"]]


def _tokens(client: Client, _begun: str) -> Iterable[str]:
    found = client.get("/api/tokens")["tokens"]
    return [each["id"] for each in found if each["status"] == "good"]


workflow_ids = offer(lambda client, begun: [run["workflow_id"] for run in _runs(client, begun)])
workflow_types = offer(lambda client, begun: [run["workflow_type"] for run in _runs(client, begun)])
queues = offer(_queues)
nodes = offer(lambda client, _: [row["id"] for row in client.get("/api/cluster")["nodes"]])
namespaces = offer(
    lambda client, _: [each["name"] for each in client.get("/api/namespaces")["namespaces"]]
)
token_ids = offer(_tokens)


def calls(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Those that the audit log can hold."""
    from raftflow.cluster.api.permissions import OPERATIONS

    return plain((name for name, each in OPERATIONS.items() if each.changes), begun)
