"""All workloads by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.jepsen.workloads.attempts import Attempts
from tests.jepsen.workloads.base import Workload
from tests.jepsen.workloads.completions import Completions
from tests.jepsen.workloads.decisions import Decisions
from tests.jepsen.workloads.histories import Histories
from tests.jepsen.workloads.idempotency import Idempotency
from tests.jepsen.workloads.leases import Leases
from tests.jepsen.workloads.membership import Membership
from tests.jepsen.workloads.overload import Overload
from tests.jepsen.workloads.parity import Parity
from tests.jepsen.workloads.reads import Reads
from tests.jepsen.workloads.register import Register
from tests.jepsen.workloads.sagas import Sagas
from tests.jepsen.workloads.signals import Signals
from tests.jepsen.workloads.starts import Starts
from tests.jepsen.workloads.timers import Timers

ALL: dict[str, Callable[[], Workload]] = {
    workload.name: workload
    for workload in (
        Starts,
        Register,
        Signals,
        Histories,
        Completions,
        Leases,
        Timers,
        Attempts,
        Decisions,
        Sagas,
        Membership,
        Overload,
        Parity,
        Idempotency,
        Reads,
    )
}
