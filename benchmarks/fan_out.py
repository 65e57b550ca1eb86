"""Many activities of one run at once over four workers on different nodes, of which one is killed
every few seconds, and the leader once: how long, how many entries, and exactly one result each.

usage: python -m benchmarks.fan_out [--count 1000] [--work-ms 300] [--kill-every 2] [--seed 1]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import _cluster

from fan_out import ENVIRONMENT, fan_out  # isort: skip - of tests/support, which _cluster adds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--work-ms", type=int, default=300)
    parser.add_argument("--kill-every", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with _cluster.cluster(environment=ENVIRONMENT) as cluster:
        outcome = fan_out(
            cluster,
            count=asked.count,
            work_ms=asked.work_ms,
            kill_every_s=asked.kill_every,
            seed=asked.seed,
        )
    _cluster.table(
        f"{asked.count} activities of {asked.work_ms} ms in one run, seed {asked.seed}",
        ("seconds", "entries", "stale decisions", "attempts", "workers killed", "leader killed"),
        [
            (
                outcome.seconds,
                outcome.entries,
                outcome.stale,
                outcome.attempts,
                outcome.workers_killed,
                outcome.leader,
            )
        ],
    )
    if outcome.problems:
        sys.exit("WRONG: " + "; ".join(outcome.problems))
    print(f"  exactly {asked.count} results, the same history on every node")


if __name__ == "__main__":
    main()
