"""All workloads by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.jepsen.workloads.base import Workload
from tests.jepsen.workloads.register import Register
from tests.jepsen.workloads.signals import Signals
from tests.jepsen.workloads.starts import Starts

ALL: dict[str, Callable[[], Workload]] = {
    workload.name: workload for workload in (Starts, Register, Signals)
}
