"""A run as a test sees it: what the API shows of it, and its result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from raftflow.cluster.api import views
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers.runs import DescribedRun
from raftflow.cluster.codec.events import encode_event
from raftflow.cluster.store.records import frame
from raftflow.engine import state as engine
from raftflow.engine.events import Event
from raftflow.engine.ids import RunKey
from raftflow_sdk import RunFailed, payloads
from raftflow_sdk.payloads import Decode

if TYPE_CHECKING:
    from raftflow.testing.environment import Environment


class StillOpen(AssertionError):
    """The run has not ended and nothing will happen any more unless the test does something."""


class Run:
    """One run. What is asked is answered as of the moment."""

    def __init__(self, env: Environment, key: RunKey, decode: Decode) -> None:
        self._env = env
        self._key = key
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Run {self.workflow_id!r} {self.status}>"

    @property
    def workflow_id(self) -> str:
        return self._key.workflow_id

    @property
    def run_id(self) -> str:
        return self._key.run_id

    @property
    def status(self) -> str:
        return self._run.status.name

    @property
    def open(self) -> bool:
        return self._run.open

    @property
    def error(self) -> str:
        return self._run.error or self._run.suspended_reason

    @property
    def error_type(self) -> str:
        return self._run.error_type

    @property
    def history(self) -> list[dict[str, Any]]:
        """The events, as `GET /api/workflows/{id}/history` shows them."""
        return [views.history_event(event) for event in self.events]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._env.node.events[self._key])

    @property
    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self.describe()["steps"]
        return steps

    @property
    def waiting_on(self) -> list[str]:
        """What an open run waits for, in words."""
        return [
            f"{wait['step_name']}: {wait['detail']}" if wait["step_name"] else wait["detail"]
            for wait in self.describe()["waiting_on"]
        ]

    @property
    def newest(self) -> Run:
        """This run, or where it went on as new."""
        run = self
        while run._run.continued_to_run_id:
            key = self._key._replace(run_id=run._run.continued_to_run_id)
            run = Run(self._env, key, self._decode)
        return run

    @property
    def result(self) -> Any:
        """The output, once time has passed until the end; of the last run of a chain.

        Raises `RunFailed` when it ended otherwise than COMPLETED and `StillOpen` when it waits for
        what only the test can give.
        """
        self._env.finish(self)
        last = self.newest
        if last.open:
            waits = "; ".join(last.waiting_on) or last.error
            raise StillOpen(f"workflow {self.workflow_id!r} is {last.status}: {waits}")
        if last.status != "COMPLETED":
            raise RunFailed(
                self.workflow_id,
                last.run_id,
                last.status,
                last.error,
                error_type=last.error_type,
            )
        return payloads.decode(last._run.output, self._decode)

    def describe(self) -> dict[str, Any]:
        """The run, as `GET /api/workflows/{id}` shows it."""
        found = DescribedRun(self._run, self._env.node.signals_of(self._key))
        return as_json(views.described(found))

    def export(self) -> bytes:
        """The `.history` file."""
        return b"".join(frame(encode_event(event)) for event in self.events)

    @property
    def _run(self) -> engine.Run:
        return self._env.node.run(self._key)


def as_json(view: dict[str, Any]) -> dict[str, Any]:
    """What arrives on the other side of the wire."""
    plain = {name: list(it) if isinstance(it, Rows) else it for name, it in view.items()}
    parsed: dict[str, Any] = json.loads(json.dumps(plain))
    return parsed
