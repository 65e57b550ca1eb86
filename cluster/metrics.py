"""Every Prometheus metric of a node, in one registry of its own. No ids as labels.

Hot paths touch a counter or a histogram; what consensus and the queues know already is read when
somebody scrapes (`Metrics.sources`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftflow.engine.effects import DropLease, Effect, HistoryGrew, StepResolved

# A `_created` series beside every counter doubles what is scraped and says nothing we need.
disable_created_metrics()  # type: ignore[no-untyped-call]

ROLES = ("follower", "candidate", "leader")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30)
_STEP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600, 86400)
_FSYNC_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftGauges:
    """What consensus and the replica say when a scrape asks."""

    role: str
    term: int
    commit_index: int
    applied_index: int
    elections: int
    messages_sent: int
    proposals_pending: int
    snapshot_age_seconds: float
    leader_known: bool
    voters: int
    voters_connected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGauges:
    """Tasks queued and polls parked, as this node sees them; how long the first task has waited."""

    activity_tasks: int
    workflow_tasks: int
    polls_waiting: int
    oldest_activity_task_ms: int = 0
    oldest_workflow_task_ms: int = 0


_NO_RAFT = RaftGauges(
    role="follower",
    term=0,
    commit_index=0,
    applied_index=0,
    elections=0,
    messages_sent=0,
    proposals_pending=0,
    snapshot_age_seconds=0.0,
    leader_known=False,
    voters=0,
    voters_connected=0,
)
_NO_QUEUES = QueueGauges(activity_tasks=0, workflow_tasks=0, polls_waiting=0)


@dataclass(slots=True)
class Sources:
    """Set once by the node's composition; a source that is missing leaves zeros."""

    raft: Callable[[], RaftGauges] | None = None
    queues: Callable[[], QueueGauges] | None = None
    certificates: Callable[[], Mapping[str, float]] | None = None  # seconds left, by use


class Metrics:
    """The node's metrics object. Attributes are prometheus metrics, used directly."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sources = Sources()
        self._count_work(self.registry)
        self._watch_node(self.registry)
        self._watch_disk(self.registry)
        self.spans_sent, self.spans_lost = _span_counters(self.registry)
        self._request_children: dict[tuple[str, str], Histogram] = {}
        self.requests_total = 0
        self.registry.register(_Sampled(self.sources))
        ProcessCollector(registry=self.registry)
        _build_info(self.registry)

    def _count_work(self, registry: CollectorRegistry) -> None:
        self.workflows_started = Counter(
            "workflowd_workflows_started_total",
            "Runs started, counted by the leader that applied the start.",
            ["type"],
            registry=registry,
        )
        self.workflows_finished = Counter(
            "workflowd_workflows_finished_total",
            "Runs closed, by status.",
            ["status"],
            registry=registry,
        )
        self.step_duration = Histogram(
            "workflowd_step_duration_seconds",
            "From a step's scheduling to its result.",
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self.leases_expired = Counter(
            "workflowd_leases_expired_total",
            "Leases whose holder missed the deadline.",
            registry=registry,
        )
        self.timer_lag = Gauge(
            "workflowd_timer_lag_seconds",
            "How late the latest timer fired.",
            registry=registry,
        )
        self.runs_deleted = Counter(
            "workflowd_workflows_deleted_total",
            "Closed runs forgotten, at a call's wish or for their namespace's retention.",
            registry=registry,
        )
        self.outbox_pending = Gauge(
            "workflowd_outbox_pending",
            "Messages between runs (a child to start, its outcome, its end) that the leader is"
            " delivering.",
            registry=registry,
        )
        self.invariant_checks = Counter(
            "workflowd_invariant_checks_total",
            "Runs, remembered requests and totals held against what must be true of them.",
            registry=registry,
        )
        self.invariant_violations = Counter(
            "workflowd_invariant_violations_total",
            "What did not hold, each once while it lasts.",
            ["invariant"],
            registry=registry,
        )
        self.invariants_violated = Gauge(
            "workflowd_invariants_violated",
            "What did not hold when it was last looked at.",
            ["invariant"],
            registry=registry,
        )

    def _watch_node(self, registry: CollectorRegistry) -> None:
        self.fsync = Histogram(
            "workflowd_raft_fsync_seconds",
            "One flush of the log to disk.",
            buckets=_FSYNC_BUCKETS,
            registry=registry,
        )
        self.backpressure_rejected = Counter(
            "workflowd_backpressure_rejected_total",
            "Calls refused before they were proposed.",
            ["cause"],
            registry=registry,
        )
        self.calls_refused = Counter(
            "workflowd_calls_refused_total",
            "Calls and connections refused for who made them, or for a limit, which is named.",
            ["reason", "limit"],
            registry=registry,
        )
        self.loop_lag = Gauge(
            "workflowd_loop_lag_seconds",
            "Longest delay of the event loop over the last seconds.",
            registry=registry,
        )
        self.clock_skew = Gauge(
            "workflowd_clock_skew_seconds",
            "This node's wall clock against the median of the voters.",
            registry=registry,
        )
        self.digest_compared = Gauge(
            "workflowd_state_digest_compared_index",
            "The newest log index at which another node's state was found equal to this one's.",
            registry=registry,
        )
        self.digest_disputes = Gauge(
            "workflowd_state_digest_disputes",
            "Digests of other nodes that differed from this one's since it started: never more"
            " than 0 on a healthy cluster.",
            registry=registry,
        )
        self.scrub_bytes = Counter(
            "workflowd_scrub_bytes_total",
            "Bytes of the log and of the state that were read again to see whether they are sound.",
            ["part"],
            registry=registry,
        )
        self.scrub_findings = Counter(
            "workflowd_scrub_findings_total",
            "Damaged places that the scrub found; the node then ends and is repaired at its start.",
            ["part"],
            registry=registry,
        )
        self.scrub_completed = Gauge(
            "workflowd_scrub_completed_timestamp_seconds",
            "When the last pass over all data ended without a finding; 0: not yet.",
            registry=registry,
        )
        self._requests = Histogram(
            "workflowd_request_seconds",
            "API calls, by operation and gRPC code.",
            ["method", "code"],
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )

    def _watch_disk(self, registry: CollectorRegistry) -> None:
        self.disk_size = Gauge(
            "workflowd_disk_size_bytes",
            "Size of the file system that holds the data directory.",
            registry=registry,
        )
        self.disk_free = Gauge(
            "workflowd_disk_free_bytes",
            "What is free of it for this node.",
            registry=registry,
        )
        self.data_bytes = Gauge(
            "workflowd_data_bytes",
            "Size of the data directory, by part: log, state, snapshots, and what was set aside as"
            " damaged.",
            ["part"],
            registry=registry,
        )

    def request(self, method: str, code: str, seconds: float) -> None:
        """Count one API call. Both label sets are small and fixed."""
        self.requests_total += 1
        child = self._request_children.get((method, code))
        if child is None:
            child = self._requests.labels(method, code)
            self._request_children[(method, code)] = child
        child.observe(seconds)

    def applied(self, effects: Iterable[Effect]) -> None:
        """Count what a batch did. The leader calls it, so that a sum over the nodes is right."""
        for effect in effects:
            match effect:
                case HistoryGrew(opened=opened, closed=closed):
                    if opened:
                        self.workflows_started.labels(effect.workflow_type).inc()
                    if closed:
                        self.workflows_finished.labels(effect.status.lower()).inc()
                case StepResolved():
                    self.step_duration.observe(effect.duration_ms / 1_000)
                case DropLease(expired=True):
                    self.leases_expired.inc()

    def queues(self) -> QueueGauges:
        return self.sources.queues() if self.sources.queues else _NO_QUEUES

    def certificates(self) -> Mapping[str, float]:
        """Seconds that each one in use is still good, by its use."""
        return self.sources.certificates() if self.sources.certificates else {}

    def render(self) -> bytes:
        return generate_latest(self.registry)


def _build_info(registry: CollectorRegistry) -> None:
    info = Gauge(
        "workflowd_build_info", "1, and the release as a label.", ["version"], registry=registry
    )
    info.labels(version("raftflow")).set(1)


def _span_counters(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    sent = Counter(
        "workflowd_trace_spans_sent_total",
        "Spans that the receiver at otlp_endpoint took.",
        registry=registry,
    )
    lost = Counter(
        "workflowd_trace_spans_lost_total", "Spans that nobody got.", ["cause"], registry=registry
    )
    return sent, lost


class _Sampled:
    """Gauges that are read from their owners at scrape time."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        queues = self._sources.queues() if self._sources.queues else _NO_QUEUES
        yield _gauge("workflowd_task_queue_depth", "Activity tasks queued.", queues.activity_tasks)
        yield _gauge(
            "workflowd_workflow_task_queue_depth", "Workflow tasks queued.", queues.workflow_tasks
        )
        yield _gauge(
            "workflowd_task_queue_oldest_seconds",
            "How long the activity task that came first has waited.",
            queues.oldest_activity_task_ms / 1_000,
        )
        yield _gauge(
            "workflowd_workflow_task_queue_oldest_seconds",
            "How long the workflow task that came first has waited.",
            queues.oldest_workflow_task_ms / 1_000,
        )
        yield _gauge("workflowd_polls_waiting", "Polls parked on this node.", queues.polls_waiting)
        raft = self._sources.raft() if self._sources.raft else _NO_RAFT
        role = GaugeMetricFamily(
            "workflowd_raft_role", "1 for the role this node has.", labels=["role"]
        )
        for name in ROLES:
            role.add_metric([name], 1.0 if name == raft.role else 0.0)
        yield role
        yield _gauge(
            "workflowd_raft_leader_known",
            "1 while this node hears a leader that has a majority.",
            raft.leader_known,
        )
        yield _gauge("workflowd_raft_voters", "Members that vote.", raft.voters)
        yield _gauge(
            "workflowd_raft_voters_connected",
            "Voters that this node is connected with, itself included.",
            raft.voters_connected,
        )
        lag = max(0, raft.commit_index - raft.applied_index)
        yield _gauge("workflowd_raft_term", "Current term.", raft.term)
        yield _gauge("workflowd_raft_commit_index", "Committed up to.", raft.commit_index)
        yield _gauge("workflowd_raft_applied_index", "Applied up to.", raft.applied_index)
        yield _gauge("workflowd_raft_apply_lag", "Entries committed and not applied.", lag)
        yield _gauge("workflowd_raft_proposals_pending", "Waiting calls.", raft.proposals_pending)
        yield _gauge(
            "workflowd_raft_snapshot_age_seconds",
            "Since the last durable checkpoint of the state.",
            raft.snapshot_age_seconds,
        )
        yield self._certificates()
        elections = CounterMetricFamily("workflowd_raft_elections", "Changes of leader seen.")
        elections.add_metric([], raft.elections)
        yield elections
        messages = CounterMetricFamily("workflowd_raft_messages_sent", "Raft messages to peers.")
        messages.add_metric([], raft.messages_sent)
        yield messages

    def _certificates(self) -> GaugeMetricFamily:
        expiry = GaugeMetricFamily(
            "workflowd_certificate_expiry_seconds",
            "Until a certificate that this node uses is over; negative afterwards.",
            labels=["use"],
        )
        found = self._sources.certificates() if self._sources.certificates else {}
        for use, seconds in found.items():
            expiry.add_metric([use], seconds)
        return expiry


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
