"""Three real nodes that ask for tokens, with a worker: what people with a browser visit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dev_cluster import HttpError, wait_for, workflow_path
from node_processes import Nodes, nodes_in
from scene import CODE, WORKFLOWS

from raftflow_sdk import Client, Worker

IDS = ("n1", "n2", "n3")
# Of the token file; every one sees payloads.
TOKENS = {
    "root": "root-of-the-test-site-1f0c",
    "viewer": "viewer-of-the-test-site-2e7b",
    "user": "user-of-the-test-site-3d5a",
}


@dataclass
class Site:
    nodes: Nodes
    arguments: tuple[str, ...]
    workers: list[Worker] = field(default_factory=list)

    @property
    def base(self) -> str:
        """The address of the node that serves the page unless a test says another."""
        return self.base_of("n1")

    def base_of(self, node_id: str) -> str:
        return f"http://{self.nodes[node_id].http}"

    def node_of(self, address: str) -> str:
        return next(each for each in IDS if self.nodes[each].http in address)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """At any node that runs."""
        running = self.nodes.running()
        for node in running[:-1]:
            with contextlib.suppress(OSError):
                return node.call(method, path, body)
        return running[-1].call(method, path, body)

    def client(self) -> Client:
        return Client([self.base_of(each) for each in IDS], token=TOKENS["root"])

    def start(self, workflow_id: str, kind: str, **fields: Any) -> dict[str, Any]:
        body = {"type": kind, "workflow_id": workflow_id, **fields}
        started: dict[str, Any] = self.call("POST", "/api/workflows", body)
        return started

    def describe(self, workflow_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", workflow_path(workflow_id))
        return found

    def wait(self, workflow_id: str, *statuses: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            with contextlib.suppress(HttpError):
                found = self.describe(workflow_id)
                return found if found["status"] in statuses else None
            return None

        found: dict[str, Any] = wait_for(f"{workflow_id} is {' or '.join(statuses)}", reached)
        return found

    def wait_for_step(self, workflow_id: str, name: str) -> None:
        def is_there() -> bool:
            return any(
                name in (step.get("step_name"), step.get("signal_name"))
                for step in self.describe(workflow_id)["steps"]
            )

        wait_for(f"{workflow_id} has come to {name}", is_there)

    def work(self, *, worker_id: str = "packer-1", token: str = TOKENS["root"]) -> Worker:
        """A worker that knows every workflow and activity of the scene."""
        worker = Worker(
            [self.base_of(each) for each in IDS],
            token=token,
            worker_id=worker_id,
            workflow_slots=2,
            activity_slots=4,
        )
        for name, workflow in WORKFLOWS.items():
            worker.workflow(name)(workflow)
        for activity in CODE:
            worker.activity(activity.__name__)(activity)
        worker.start()
        self.workers.append(worker)
        return worker

    def kill(self, node_id: str) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.kill()
        process.wait()

    def revive(self) -> None:
        """Every node runs, and all vote."""
        running = {node.id for node in self.nodes.running()}
        for each in IDS:
            if each not in running:
                self.nodes[each].start("--peers", self.nodes.peers(*IDS), *self.arguments)
        self.nodes.wait_settled(*IDS)

    def close(self) -> None:
        """All at once: each of them waits for a poll that is parked."""
        threads = [threading.Thread(target=worker.stop, args=(2.0,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def site_in(directory: Path) -> Iterator[Site]:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "tokens"
    lines = [f"{TOKENS['root']} name=root"]
    lines += [f"{TOKENS[role]} name={role} role={role}" for role in ("viewer", "user")]
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    arguments = ("--auth-token-file", str(file))
    with nodes_in(directory / "nodes", most=len(IDS)) as nodes:
        for each in IDS:
            nodes[each].token = TOKENS["root"]
        nodes.bear(*IDS, arguments=arguments)
        site = Site(nodes, arguments)
        try:
            yield site
        finally:
            site.close()
