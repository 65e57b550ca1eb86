"""Which ports are reached, over HTTP."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from json_client import Client
from single_node import Served


async def test_each_port_of_each_other_node(client: Client, served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        served.node.members["n2"] = SimpleNamespace(
            id="n2", http=address, grpc=None, raft=address, metrics=None
        )
        try:
            reply = await client.get("/api/cluster/ports")
        finally:
            del served.node.members["n2"]
    found = {"from": "n1", "to": "n2", "address": address, "reachable": True, "problem": None}
    assert reply.json == {
        "node": "n1",
        "ports": [{**found, "port": "http"}, {**found, "port": "raft"}],
        "missing": ["n2"],
        "reasons": reply.json["reasons"],
    }
    assert (await client.get("/api/cluster/ports?to=n2")).status == 400
