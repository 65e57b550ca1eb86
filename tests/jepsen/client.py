"""Calls whose end is known: ok (it happened), fail (it never will), info (nobody can say yet)."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from dev_cluster import DevCluster, HttpError, call

ATTEMPT_S = 8.0
PATIENCE_S = 60.0


@dataclass
class Outcome:
    """``kind`` is ok, fail or info; ``body`` the answer or the refusal."""

    kind: str
    status: int = 0
    body: Any = None


@dataclass
class Client:
    """Asks one node after the other with the same request id until the outcome is known."""

    cluster: DevCluster
    seed: int
    calls: int = 0
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._https = [self.cluster.http(node_id) for node_id in self.cluster.ids()]

    def once(self, address: str, method: str, path: str, body: Any = None) -> Outcome:
        self.calls += 1
        try:
            return Outcome("ok", 200, call(address, method, path, body, timeout=ATTEMPT_S))
        except HttpError as error:
            kind = "fail" if error.status < 500 else "info"
            if error.status >= 500 and error.status != 503:
                self.errors.append(f"{method} {path}: {error}")
            return Outcome(kind, error.status, error.body)
        except (OSError, ValueError) as error:
            return Outcome("info", 0, str(error))

    def until_known(self, method: str, path: str, body: Any = None) -> Outcome:
        """The same call, at random nodes, until one of them knows."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            outcome = self.once(self._random.choice(self._https), method, path, body)
            if outcome.kind != "info" or time.monotonic() > deadline:
                return outcome
            time.sleep(self._random.uniform(0.02, 0.2))
