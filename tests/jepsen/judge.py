"""All verdicts over a stored run; nothing else is looked at, so that it can be judged again."""

from __future__ import annotations

from pathlib import Path

from tests.jepsen import report, store
from tests.jepsen.checker.faults import check_ends, check_faults, check_quiet
from tests.jepsen.checker.liveness import check_liveness
from tests.jepsen.checker.resources import check_resources
from tests.jepsen.checker.verdict import Verdict
from tests.jepsen.history import calls, of_workload
from tests.jepsen.nemesis.families import faults_of
from tests.jepsen.workloads.catalog import ALL as WORKLOADS


def judge(directory: Path) -> dict[str, Verdict]:
    """Also writes the verdicts and the report into the directory."""
    meta = store.read_meta(directory)
    history = store.read_history(directory)
    samples = store.read_samples(directory)
    verdicts = {name: WORKLOADS[name]().check(history) for name in meta.workloads}
    families = {name: [fault.name for fault in faults_of(name)] for name in meta.nemeses}
    verdicts["faults"] = check_faults(history, families)
    verdicts["ends"] = check_ends(history, samples)
    verdicts["quiet"] = check_quiet(history, samples)
    verdicts["liveness"] = check_liveness(calls(of_workload(history, "liveness")), nodes=meta.nodes)
    verdicts["resources"] = check_resources(samples)
    store.write_verdicts(directory, verdicts)
    report.write(directory, meta, history, samples, verdicts)
    return verdicts
