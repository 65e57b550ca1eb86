"""A cluster to bring causes about on, and to ask why: workers are single calls, so that a test
decides what they do and when."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from click.testing import CliRunner
from dev_cluster import DevCluster, HttpError, wait_for

from raftflow.cluster.cli.main import cli
from raftflow_sdk.replay.decision import decide

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Why:
    """An answer of `why`."""

    document: Json

    @property
    def causes(self) -> list[str]:
        return [link["cause"] for link in self.document["links"]]

    def link(self, cause: str) -> Json:
        (found,) = (link for link in self.document["links"] if link["cause"] == cause)
        return found

    def evidence(self, cause: str) -> Json:
        return dict(self.link(cause)["evidence"])

    @property
    def next(self) -> str:
        """What there is to do: one link says it."""
        (found,) = (link["next"] for link in self.document["links"] if link["next"])
        return str(found)


class Bench:
    def __init__(self, cluster: DevCluster, node: str) -> None:
        """``node`` is the one that is asked: a follower, so that what the leader alone knows has
        to come from there."""
        self.cluster = cluster
        self.node = node

    # ---- calls ----------------------------------------------------------------------------------

    def call(
        self, method: str, path: str, body: Any = None, *, namespace: str = "", node: str = ""
    ) -> Any:
        """Raises HttpError for an answer of 400 or above."""
        connection = http.client.HTTPConnection(self.cluster.http(node or self.node), timeout=40)
        with contextlib.closing(connection):
            connection.request(method, path, *_message(body, namespace))
            answer = connection.getresponse()
            content = answer.read()
        if answer.status >= 400:
            raise HttpError(answer.status, json.loads(content))
        return json.loads(content) if content else None

    def register(self, *types: str, namespace: str = "") -> None:
        body = {"workflow_types": list(types), "worker_id": "registrar"}
        self.call("POST", "/api/workflow-types", body, namespace=namespace)

    def start(
        self, workflow_id: str, workflow_type: str, *, namespace: str = "", **more: Any
    ) -> None:
        body = {"type": workflow_type, "workflow_id": workflow_id, **more}
        self.call("POST", "/api/workflows", body, namespace=namespace)

    def workflow_task(self, workflow_type: str, *, namespace: str = "", queue: str = "") -> Json:
        query = {"types": workflow_type, "worker_id": "decider", "task_queue": queue}
        path = f"/api/workflow-tasks?{urlencode(query)}"
        return dict(
            wait_for("a workflow task", lambda: self.call("GET", path, namespace=namespace))
        )

    def answer(self, task: Json, body: Json, *, namespace: str = "") -> None:
        named = {name: task[name] for name in ("workflow_id", "task_token")}
        self.call("POST", "/api/workflow-tasks/complete", named | body, namespace=namespace)

    def decide(
        self, workflow_type: str, *commands: Json, namespace: str = "", queue: str = ""
    ) -> None:
        """Take the type's next workflow task and answer it."""
        task = self.workflow_task(workflow_type, namespace=namespace, queue=queue)
        self.answer(task, {"commands": list(commands)}, namespace=namespace)

    def replay(self, workflow_type: str, code: Any) -> None:
        """The same, as the Python SDK makes it of this code."""
        task = self.workflow_task(workflow_type)
        self.answer(task, decide(code, task))

    def take(
        self, activity: str, *, worker: str = "taker", queue: str = "", namespace: str = ""
    ) -> Json:
        query = {"activities": activity, "worker_id": worker, "task_queue": queue}
        path = f"/api/activity-tasks?{urlencode(query)}"
        return dict(
            wait_for(f"{activity} is offered", lambda: self.call("GET", path, namespace=namespace))
        )

    def complete(self, task: Mapping[str, Any], **outcome: Any) -> None:
        names = ("workflow_id", "step_name", "sequence", "lease_token")
        self.call("POST", "/api/activity-tasks/complete", {n: task[n] for n in names} | outcome)

    @contextlib.contextmanager
    def polling(
        self,
        names: Sequence[str],
        *,
        worker: str,
        queue: str = "default",
        namespace: str = "",
        workflows: bool = False,
        node: str = "",
    ) -> Iterator[None]:
        """A poll that waits, until the end or until it has its task."""
        path = "/api/workflow-tasks" if workflows else "/api/activity-tasks"
        query = {
            "types" if workflows else "activities": ",".join(names),
            "worker_id": worker,
            "task_queue": queue,
        }
        connection = http.client.HTTPConnection(self.cluster.http(node or self.node), timeout=40)
        connection.request("GET", f"{path}?{urlencode(query)}", *_message(None, namespace))
        try:
            wait_for(f"{worker} polls", lambda: self._polls(worker), timeout=30)
            yield
        finally:
            connection.close()
            wait_for(f"{worker} polls no more", lambda: not self._polls(worker))

    def _polls(self, worker: str) -> bool:
        found = self.call("GET", "/api/workers")["workers"]
        return any(each["id"] == worker and each["polls"] for each in found)

    # ---- asking ---------------------------------------------------------------------------------

    def why_run(
        self, workflow_id: str, *, namespace: str = "", node: str = "", **query: str
    ) -> Why:
        path = f"/api/why/run/{quote(workflow_id, safe='')}?{urlencode(query)}"
        return Why(self.call("GET", path, namespace=namespace, node=node))

    def why_task(self, workflow_id: str, step: str, *, namespace: str = "") -> Why:
        path = f"/api/why/task/{quote(workflow_id, safe='')}?{urlencode({'step': step})}"
        return Why(self.call("GET", path, namespace=namespace))

    def why_queue(self, queue: str, *, namespace: str = "") -> Why:
        return Why(self.call("GET", f"/api/why/queue/{quote(queue, safe='')}", namespace=namespace))

    def until(self, ask: Any, *causes: str) -> Why:
        """Ask until the chain is ``causes``."""
        last: list[Why] = []

        def answered() -> Why | None:
            last[:] = [ask()]
            return last[0] if last[0].causes == list(causes) else None

        try:
            return wait_for(f"the chain {causes}", answered, timeout=30)  # type: ignore[no-any-return]
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(last[0].document, indent=1)}") from None

    def do(self, then: str, *, containing: str = "") -> str:
        """Run the command that a next step names, and give what it prints."""
        (words,) = (
            shlex.split(each)
            for each in re.findall(r"`(raftflow [^`]+)`", then)
            if containing in each
        )
        return self.run(*words[1:])

    def run(self, *words: str) -> str:
        """A command line, in this process."""
        environment = {"RAFTFLOW_ADDRESS": ",".join(self.cluster.addresses(self.node))}
        done = CliRunner().invoke(cli, list(words), env=environment)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.output

    def status(self, workflow_id: str, namespace: str = "") -> str:
        path = f"/api/workflows/{quote(workflow_id, safe='')}"
        return str(self.call("GET", path, namespace=namespace)["status"])


def _message(body: Any, namespace: str) -> tuple[bytes | None, dict[str, str]]:
    headers = {"Content-Type": "application/json"}
    if namespace:
        headers["X-Workflowd-Namespace"] = namespace
    return (None if body is None else json.dumps(body).encode()), headers


def activity(name: str, sequence: int = 1, **more: Any) -> Json:
    return {
        "type": "schedule_activity",
        "step_name": name,
        "sequence": sequence,
        "input": "",
        "retry_policy": {"max_attempts": 1, "initial_backoff_ms": 0, "max_backoff_ms": 0},
        **more,
    }


def retrying(attempts: int, backoff_ms: int) -> Json:
    policy = {
        "max_attempts": attempts,
        "initial_backoff_ms": backoff_ms,
        "max_backoff_ms": backoff_ms,
    }
    return {"retry_policy": policy}
