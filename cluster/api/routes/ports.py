"""Which ports of which node the others reach."""

from __future__ import annotations

from raftflow.cluster.api.routes.request import Answer, Request, Route
from raftflow.cluster.api.schema import ref


async def ports(request: Request) -> Answer:
    request.query()
    seen = await request.node.ports.seen()
    return Answer(
        200,
        {
            "node": request.node.config.node_id,
            "ports": [
                {
                    "from": each.from_,
                    "to": each.to,
                    "port": each.port,
                    "address": each.address,
                    "reachable": each.reachable,
                    "problem": each.problem or None,
                }
                for each in seen.ports
            ],
            "missing": sorted(seen.missing),
            "reasons": dict(sorted(seen.missing.items())),
        },
    )


PORTS = Route(
    name="CheckPorts",
    handler=ports,
    summary="Whether the nodes reach one another's ports, as each of them finds it.",
    answers={200: ref("Ports")},
    namespaced=False,
)
