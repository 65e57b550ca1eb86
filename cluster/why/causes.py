"""Every cause that `why` can name. docs/why.md explains each; a test compares."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    # ---- a run, a task, a queue (run.py, task.py, queue.py)
    NO_SUCH_RUN = "no_such_run"
    OTHER_NAMESPACE = "other_namespace"  # the run is there, in another namespace
    RUN_WAITS = "run_waits"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    CONTINUED = "continued"
    CANCEL_REQUESTED = "cancel_requested"
    PAUSED = "paused"
    NONDETERMINISM = "nondeterminism"
    REPLAY_ERROR = "replay_error"
    VERSION_MARKER = "version_marker"  # a worker whose code is older than the run
    HISTORY_LIMIT = "history_limit"
    LEASE_EXPIRED = "lease_expired"
    STEP_TIMED_OUT = "step_timed_out"
    HISTORY_DAMAGED = "history_damaged"
    SUSPENDED = "suspended"
    BROKEN = "broken"
    NO_SUCH_STEP = "no_such_step"
    STEP_DONE = "step_done"
    STEP_FAILED = "step_failed"
    TASK_QUEUED = "task_queued"
    NO_POLLER = "no_poller"
    POLLER_OTHER_QUEUE = "poller_other_queue"
    POLLER_OTHER_NAMESPACE = "poller_other_namespace"
    POLLER_LACKS_NAME = "poller_lacks_name"
    WORKERS_BUSY = "workers_busy"
    POLLED = "polled"
    LEASE_HELD = "lease_held"
    WORKER_SILENT = "worker_silent"
    RETRY_BACKOFF = "retry_backoff"
    DECISION_REFUSED = "decision_refused"
    TIMER_DUE = "timer_due"
    SIGNAL_AWAITED = "signal_awaited"
    SIGNAL_OTHER_NAME = "signal_other_name"
    CHILD_AWAITED = "child_awaited"
    CHILD_NOT_STARTED = "child_not_started"
    RESULT_ARRIVED = "result_arrived"
    PAYLOAD_REFUSED = "payload_refused"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    BACK_PRESSURE = "back_pressure"
    VERSION_GATE = "version_gate"  # a member of an older release holds a feature back
    RESULT_LATE = "result_late"
    CALL_REFUSED = "call_refused"
    QUEUE_EMPTY = "queue_empty"
    QUEUE_WAITS = "queue_waits"
    NO_SUCH_QUEUE = "no_such_queue"
    # ---- the log, the leader, a node (log.py, leader.py, node.py)
    LEADER_KNOWN = "leader_known"
    NO_LEADER = "no_leader"
    NO_QUORUM = "no_quorum"
