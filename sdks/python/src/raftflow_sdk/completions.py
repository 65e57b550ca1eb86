"""Completions: tasks reported as done until somebody has heard it, and what comes with the answer.

An answer may be lost with tasks in it, which would then sit out their leases. The request named
them: a poll of the same name gives them back, whatever became of the completion itself.
"""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from raftflow_sdk.activity import failure
from raftflow_sdk.connection import REQUEST_TIMEOUT, Connection
from raftflow_sdk.errors import ApiError, Unavailable
from raftflow_sdk.leases import Lease
from raftflow_sdk.poller import ACTIVITY_TASKS, WORKFLOW_TASKS, tasks_of

logger = logging.getLogger("raftflow_sdk")

_Tasks = list[dict[str, Any]]

# The server hands a decision out again after 10 s; a later one would only be refused.
_DECISION_PATIENCE = 10.0
# What an answer held, when one was lost: it comes at once if it is still there ...
_LOST_WAIT = 3.0
# ... and nobody is left to be asked for longer than a lease lasts.
_LOST_PATIENCE = 30.0


class Completions:
    """Delivers the outcomes of a worker's tasks; threads share it."""

    def __init__(
        self, connection: Connection, worker_id: str, task_queue: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._who = {**task_queue, "worker_id": worker_id}

    def eager(self, **names: Any) -> dict[str, Any]:
        """What a completion takes in its answer."""
        return {**names, **self._who, "request_id": uuid.uuid4().hex}

    def decided(self, body: dict[str, Any]) -> _Tasks:
        """Deliver a decision: the activity tasks that came with the answer. A refusal ends in a
        line of log, or with the run."""
        found, err = self._decision(body)
        if err is not None and err.status == 413:
            # It would be the same at every replay: end the run with the reason instead.
            failed = {"type": "fail_workflow", "error": str(err), "error_type": "PayloadTooLarge"}
            _, err = self._decision({**body, "commands": [failed], "eager": None})
        if err is not None:
            logger.error("decision of workflow %s refused: %s", body["workflow_id"], err)
        return found

    def performed(self, body: dict[str, Any], outcome: dict[str, Any], lease: Lease) -> _Tasks:
        """Deliver the outcome of an activity: the workflow task that came with the answer."""
        found, err = self._outcome(body | outcome, lease)
        if err is not None and "error" not in outcome and err.status in (400, 413):
            # The step fails with the reason rather than run again until its lease ends.
            refused = failure(str(err), "ResultRefused", non_retryable=True)
            found, err = self._outcome(body | refused, lease)
        if err is not None:
            logger.error("outcome of activity %s refused: %s", body["step_name"], err)
        return found

    def _decision(self, body: dict[str, Any]) -> tuple[_Tasks, ApiError | None]:
        """What came with the answer, and a refusal that somebody must know of."""
        try:
            return self._complete(WORKFLOW_TASKS, body, _DECISION_PATIENCE), None
        except Unavailable as err:
            # Whoever gets the task next decides the same.
            logger.info("decision of workflow %s not delivered: %s", body["workflow_id"], err)
            lost = err.maybe_applied
        except ApiError as err:
            if err.status not in (404, 409):
                return [], err
            logger.info("decision of workflow %s is stale: %s", body["workflow_id"], err)
            # So it is as well when a try that broke was applied, and others have decided since.
            lost = err.maybe_applied
        return self._ask_again(WORKFLOW_TASKS, body) if lost else [], None

    def _outcome(self, body: dict[str, Any], lease: Lease) -> tuple[_Tasks, ApiError | None]:
        """The same of an activity, tried until it is taken or the lease is over, which heartbeats
        put off."""
        lost = False
        while True:
            try:
                remaining = lease.remaining()
                return self._complete(ACTIVITY_TASKS, body, remaining, lost=lost), None
            except Unavailable as err:
                lost |= err.maybe_applied
                if lease.remaining() == 0:
                    where = f"{body['step_name']} of {body['workflow_id']}"
                    logger.warning("result of %s lost with its lease: %s", where, err)
                    return [], None
            except ApiError as err:
                if err.status not in (404, 409):
                    return [], err
                lease.lose(cancelled=err.cancelled)
                logger.info("result of %s not wanted: %s", body["step_name"], err)
                return [], None

    def _complete(
        self, path: str, body: dict[str, Any], patience: float, *, lost: bool = False
    ) -> _Tasks:
        """Report a task as done, and take what its ``eager`` asks for. ``lost``: an earlier call
        may have had an answer."""
        answer, broken = self._connection.settle(
            "POST", f"{path}/complete", body, retry_for=patience
        )
        found = list(answer.get("activity_tasks", ()))
        if "workflow_task" in answer:
            found.append(answer["workflow_task"])
        if (broken or lost) and not found:
            found = self._ask_again(path, body)
        return found

    def _ask_again(self, path: str, body: dict[str, Any]) -> _Tasks:
        """Take what the lost answer to a completion held, unless others have it by now."""
        eager = body.get("eager")
        if not eager:
            return []
        query = {name: ",".join(it) if isinstance(it, list) else it for name, it in eager.items()}
        query["wait"] = int(_LOST_WAIT * 1000)
        other = ACTIVITY_TASKS if path == WORKFLOW_TASKS else WORKFLOW_TASKS
        try:
            answer = self._connection.call(
                "GET",
                other,
                query=query,
                timeout=_LOST_WAIT + REQUEST_TIMEOUT,
                retry_for=_LOST_PATIENCE,
            )
        except (Unavailable, ApiError) as err:
            logger.warning("what a lost answer held comes back with its lease: %s", err)
            return []
        return tasks_of(answer)
