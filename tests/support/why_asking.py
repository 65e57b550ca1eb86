"""Asking real nodes why, and waiting for an answer."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any, Protocol

from dev_cluster import HttpError, call, wait_for

Answer = dict[str, Any]

# What a busy machine that runs the tests may truly have beside what a scene brings about.
AMBIENT = {"slow_fsync", "loop_lag", "disk_nearly_full"}


class Cluster(Protocol):
    def http(self, node: str) -> str: ...


def ask(cluster: Cluster, node: str, subject: str) -> Answer:
    answer: Answer = call(cluster.http(node), "GET", f"/api/why/{subject}", timeout=10)
    return answer


def causes(answer: Answer) -> list[str]:
    return [link["cause"] for link in answer["links"]]


def told(
    cluster: Cluster, node: str, subject: str, *expected: str, timeout: float = 60.0
) -> list[dict[str, Any]]:
    """The links of the answer, once it names these causes, in this order."""
    last: Answer = {}

    def found() -> bool:
        nonlocal last
        with contextlib.suppress(OSError, HttpError):
            last = ask(cluster, node, subject)
        return bool(last) and causes(last) == list(expected)

    try:
        wait_for(f"why {subject} names {expected}", found, timeout=timeout)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says {json.dumps(last, indent=1)}") from None
    assert last["links"][-1]["next"] or last["links"][-1]["severity"] == "ok"
    links: list[dict[str, Any]] = last["links"]
    return links


def is_well(answer: Answer) -> bool:
    return causes(answer)[0] in {"node_well", "log_well", *AMBIENT}


def well(cluster: Cluster, node: str, *, seen_by: str = "") -> None:
    becomes_well(cluster, seen_by or node, f"node/{node}")


def becomes_well(cluster: Cluster, node: str, subject: str) -> None:
    last: Answer = {}

    def found() -> bool:
        nonlocal last
        with contextlib.suppress(OSError, HttpError):
            last = ask(cluster, node, subject)
        return bool(last) and is_well(last)

    try:
        wait_for(f"{subject} is well", found, timeout=90)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says {json.dumps(last, indent=1)}") from None


def found_beside(answer: Answer, cause: str) -> dict[str, Any] | None:
    """The link of this cause, or what is told of it beside the chain."""
    links: list[dict[str, Any]] = answer["links"]
    beside = links[0]["evidence"].get("also", [])
    return next((each for each in (*links, *beside) if each["cause"] == cause), None)


def missing(answer: Answer) -> list[dict[str, Any]]:
    for link in answer["links"]:
        if link["cause"] == "no_quorum":
            found: list[dict[str, Any]] = link["evidence"]["missing"]
            return found
    return []


def by_last(answer: Answer, cause: str) -> Answer | None:
    return answer if answer["links"][-1]["cause"] == cause else None


def by_first(answer: Answer, cause: str, *, last: str) -> Answer | None:
    return by_last(answer, last) if answer["links"][0]["cause"] == cause else None


def by_cause(answer: Answer, cause: str) -> dict[str, Any] | None:
    return next((link for link in answer["links"] if link["cause"] == cause), None)


def row(cluster: Cluster, asked: str, node: str) -> dict[str, Any]:
    nodes = call(cluster.http(asked), "GET", "/api/cluster", timeout=5)["nodes"]
    return next(each for each in nodes if each["id"] == node)


class Writers:
    """Starts runs at a node until told to stop."""

    def __init__(
        self, cluster: Cluster, node: str, *, writers: int = 4, input_bytes: int = 3_000
    ) -> None:
        self._address = cluster.http(node)
        self._input = "x" * input_bytes
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, daemon=True) for _number in range(writers)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            body = {"type": "Idle", "input": self._input}
            with contextlib.suppress(OSError, HttpError, ValueError):
                call(self._address, "POST", "/api/workflows", body, timeout=5)
            time.sleep(0.005)
