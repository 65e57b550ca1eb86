from __future__ import annotations

from structlog.testing import capture_logs

from raftflow.cluster.consensus.watchdog import LoopWatchdog


def test_numbers() -> None:
    watchdog = LoopWatchdog(window=100)
    assert watchdog.snapshot().max_ms == 0
    for late_s in [0.001] * 97 + [0.011, 0.02, 0.05]:
        watchdog.observe(late_s, now_s=0)
    lag = watchdog.snapshot()
    assert (lag.samples, lag.p99_ms, lag.max_ms, lag.over_10_ms_total) == (100, 50.0, 50.0, 3)
    for _ in range(100):
        watchdog.observe(-0.001, now_s=1)
    lag = watchdog.snapshot()
    assert (lag.max_ms, lag.over_10_ms_total) == (0, 3)


def test_a_stall_is_logged_at_most_once_a_second_with_the_worst() -> None:
    watchdog = LoopWatchdog()
    with capture_logs() as logs:
        watchdog.observe(0.15, now_s=10)
        watchdog.observe(0.9, now_s=10.2)
        watchdog.observe(0.3, now_s=10.4)
        watchdog.observe(0, now_s=11.1)
        watchdog.observe(0, now_s=12.2)
    assert [(log["event"], log["late_ms"]) for log in logs] == [
        ("loop_lagged", 150),
        ("loop_lagged", 900),
    ]
