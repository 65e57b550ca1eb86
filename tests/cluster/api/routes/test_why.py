"""`why` over HTTP: the shape that is promised, and who may see what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from engine_harness import start
from json_client import Client
from ports import free_ports
from single_node import Served, SingleNode, config_for, serve
from token_kinds import mint

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.errors import Unavailable
from raftflow.engine.commands import CreateNamespace, RegisterTypes, Role, SignalRun

ORDER = "a/b 'c'\u202e"
ENCODED = "a%2Fb%20'c'%E2%80%AE"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    running.node.apply(CreateNamespace(namespace="shop", retention_ms=0, request_id=""))
    for namespace in ("default", "shop"):
        running.node.apply(RegisterTypes(namespace=namespace, workflow_types=("Order",)))
    running.node.apply(start(ORDER, workflow_type="Order", namespace="shop"))
    yield running
    await running.server.stop()


async def ask(served: Served, token: str, path: str, namespace: str = ""):  # type: ignore[no-untyped-def]
    headers = {"Authorization": f"Bearer {token}"}
    if namespace:
        headers["X-Workflowd-Namespace"] = namespace
    async with aiohttp.ClientSession() as session:
        return await Client(session, served.http).get(path, **headers)


def causes(answer) -> list[str]:  # type: ignore[no-untyped-def]
    return [link["cause"] for link in answer.json["links"]]


async def test_the_shape(guarded: Served) -> None:
    token = mint(guarded.node, Role.VIEWER, namespaces=("shop",))
    answer = await ask(guarded, token, f"/api/why/run/{ENCODED}")
    assert answer.status == 200
    document = answer.json
    assert document["subject"]["workflow_id"] == ORDER
    assert (document["subject"]["kind"], document["subject"]["namespace"]) == ("run", "shop")
    assert (document["seen_by"], document["applied_index"]) == ("n1", guarded.node.applied_index)
    assert causes(answer) == ["run_waits", "task_queued", "no_poller"]
    assert document["answer"].endswith(document["links"][-1]["says"].removeprefix("No worker"))
    assert [link["next"] is None for link in document["links"]] == [True, True, False]
    assert document["links"][0]["evidence"]["updated_at"].endswith("Z")
    assert "\u202e" not in document["answer"]  # nothing turns the text around


async def test_other_namespaces_are_told_only_to_who_may_see_them(guarded: Served) -> None:
    everywhere = mint(guarded.node, Role.VIEWER)
    here = mint(guarded.node, Role.VIEWER, namespaces=("default",))
    path = f"/api/why/run/{ENCODED}"
    assert causes(await ask(guarded, everywhere, path)) == ["no_such_run", "other_namespace"]
    assert causes(await ask(guarded, here, path)) == ["no_such_run"]
    assert (await ask(guarded, here, path, "shop")).status == 403
    assert (await ask(guarded, everywhere, path, "nowhere")).status == 404


async def test_no_payload_is_shown(guarded: Served) -> None:
    signal = SignalRun(
        namespace="shop",
        workflow_id=ORDER,
        run_id="",
        name="go",
        payload=b"secret",
        request_id="",
    )
    guarded.node.apply(signal)
    token = mint(guarded.node, Role.VIEWER, namespaces=("shop",), sees_payloads=True)
    for path in (f"run/{ENCODED}", f"task/{ENCODED}?step=0", "queue/default"):
        answer = await ask(guarded, token, f"/api/why/{path}")
        assert answer.status == 200
        assert b"secret" not in answer.content


async def test_a_task_and_a_queue(guarded: Served) -> None:
    token = mint(guarded.node, Role.VIEWER, namespaces=("shop",))
    assert causes(await ask(guarded, token, f"/api/why/task/{ENCODED}?step=0"))[0] == "task_queued"
    assert causes(await ask(guarded, token, f"/api/why/task/{ENCODED}?step=x")) == ["no_such_step"]
    assert (await ask(guarded, token, f"/api/why/task/{ENCODED}")).status == 400
    assert causes(await ask(guarded, token, "/api/why/queue/nothing")) == ["no_such_queue"]


async def test_without_a_leader_it_answers_all_the_same(
    guarded: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = mint(guarded.node, Role.VIEWER, namespaces=("shop",))
    guarded.node.leader, guarded.node.silence_s = "n1", None

    async def unconfirmed(_node: SingleNode) -> int:
        raise Unavailable("no leader")

    monkeypatch.setattr(SingleNode, "linearizable", unconfirmed)
    answer = await ask(guarded, token, f"/api/why/run/{ENCODED}")
    assert causes(answer)[:2] == ["run_waits", "no_leader"]


@pytest.mark.parametrize("kind", ["log", "leader", "node/n1"])
async def test_what_concerns_all_needs_a_token_for_all(guarded: Served, kind: str) -> None:
    of_all = mint(guarded.node, Role.VIEWER)
    of_some = mint(guarded.node, Role.VIEWER, namespaces=("shop",))
    answer = await ask(guarded, of_all, f"/api/why/{kind}")
    assert (answer.status, answer.json["subject"]["kind"]) == (200, kind.partition("/")[0])
    assert (await ask(guarded, of_some, f"/api/why/{kind}")).status == 403
