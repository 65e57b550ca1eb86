"""The heap of near timers: due once, in order, never after being disarmed."""

from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.leader.timers import Timers
from raftflow.engine.commands import TimerKind
from raftflow.engine.ids import RunKey
from raftflow.engine.state import TimerRow

RUN = RunKey("default", "w", "r")


def row(sequence: int, fire_at_ms: int) -> TimerRow:
    return TimerRow(RUN, TimerKind.STEP, sequence, fire_at_ms)


def test_due_timers_come_oldest_first_and_once() -> None:
    timers = Timers()
    for sequence, fire_at_ms in ((1, 300), (2, 100), (3, 200)):
        timers.arm(row(sequence, fire_at_ms))
    assert [r.sequence for r in timers.due(250, 10)] == [2, 3]
    assert timers.due(250, 10) == []
    assert timers.next_ms() == 300


def test_a_disarmed_timer_does_not_fire() -> None:
    timers = Timers()
    timers.arm(row(1, 100))
    timers.disarm(RUN, TimerKind.STEP, 1, 100)
    assert timers.due(1_000, 10) == []
    assert len(timers) == 0


def test_arming_twice_fires_once_and_rearming_moves_it() -> None:
    timers = Timers()
    timers.arm(row(1, 100))
    timers.arm(row(1, 100))
    timers.arm(row(1, 200))
    assert timers.due(150, 10) == []
    assert timers.due(200, 10) == [row(1, 200)]


def test_the_limit_leaves_the_rest_for_the_next_call() -> None:
    timers = Timers()
    for sequence in range(5):
        timers.arm(row(sequence, 10))
    assert len(timers.due(10, 3)) == 3
    assert len(timers.due(10, 3)) == 2


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 50)),
        max_size=60,
    )
)
def test_what_fires_is_what_is_armed(steps: list[tuple[bool, int, int]]) -> None:
    timers, armed = Timers(), {}
    for arm, sequence, at in steps:
        if arm:
            timers.arm(row(sequence, at))
            armed[sequence] = at
        else:
            timers.disarm(RUN, TimerKind.STEP, sequence, at)
            if armed.get(sequence) == at:
                del armed[sequence]
    fired = {r.sequence: r.fire_at_ms for r in timers.due(100, 1_000)}
    assert fired == armed
