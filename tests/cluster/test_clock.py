"""Log time under wrong, jumping and missing wall clocks."""

from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.clock import SLEW, STEP_AFTER_US, STEP_US, LogClock

HOUR_MS = 3_600_000
EPOCH_MS = 1_700_000_000_000


class World:
    """True time in microseconds, and one node's idea of it."""

    def __init__(self, *, voters: int = 3, ahead_ms: int = 0) -> None:
        self.mono_us = 5_000_000
        self.ahead_us = ahead_ms * 1_000
        self.clock = LogClock(
            voters=voters,
            monotonic_us=lambda: self.mono_us,
            wall_us=lambda: self.wall_us,
        )

    @property
    def true_ms(self) -> int:
        return EPOCH_MS + (self.mono_us - 5_000_000) // 1_000

    @property
    def wall_us(self) -> int:
        return EPOCH_MS * 1_000 + self.mono_us - 5_000_000 + self.ahead_us

    def advance(self, ms: int) -> None:
        self.mono_us += ms * 1_000


def test_alone_it_follows_its_own_clock() -> None:
    world = World(voters=1)
    assert world.clock.ready
    assert world.clock.now_ms() == EPOCH_MS
    world.advance(250)
    assert world.clock.now_ms() == EPOCH_MS + 250


def test_one_of_three_is_not_enough_to_set_the_time() -> None:
    world = World(ahead_ms=HOUR_MS)
    assert not world.clock.ready
    world.clock.observe("n2", EPOCH_MS)
    assert world.clock.ready
    # The lower of two clocks: late is bearable, early is not.
    assert world.clock.now_ms() == EPOCH_MS


def test_a_leader_an_hour_ahead_stamps_the_median() -> None:
    world = World(ahead_ms=HOUR_MS)
    world.clock.observe("n2", EPOCH_MS)
    world.clock.observe("n3", EPOCH_MS + 3)
    assert world.clock.now_ms() == EPOCH_MS + 3
    assert world.clock.skew_ms() == HOUR_MS - 3


def test_ahead_of_the_median_it_runs_slower() -> None:
    world = World(voters=1)
    world.clock.resume(EPOCH_MS + 100)
    assert world.clock.now_ms() == EPOCH_MS + 100
    for passed_ms in (SLEW, 99 * SLEW):
        world.advance(passed_ms)
        world.clock.now_ms()
    assert world.clock.now_ms() == world.true_ms
    world.advance(1_000)
    assert world.clock.now_ms() == world.true_ms


def test_a_new_term_begins_at_the_median() -> None:
    world = World(voters=1)
    world.clock.resume(EPOCH_MS - HOUR_MS)
    assert world.clock.now_ms() == EPOCH_MS
    world.ahead_us += HOUR_MS * 1_000
    world.clock.resume(EPOCH_MS)
    assert world.clock.now_ms() == EPOCH_MS + HOUR_MS


def test_within_a_term_it_gains_slowly() -> None:
    """A clock that had been wrong is right again: what is timed meanwhile is short by little."""
    world = World(voters=1)
    began = world.clock.now_ms()
    world.ahead_us = 50_000
    world.advance(SLEW)
    assert world.clock.now_ms() == began + SLEW + 1
    world.advance(SLEW * 49)
    assert world.clock.now_ms() == began + SLEW * 50 + 50
    world.advance(SLEW)
    assert world.clock.now_ms() == began + SLEW * 51 + 50


def test_what_was_behind_for_long_leaps() -> None:
    """A machine that was suspended: its monotonic clock stood still."""
    world = World(voters=1)
    world.clock.now_ms()
    world.ahead_us = HOUR_MS * 1_000
    began = world.mono_us
    while world.mono_us - began < STEP_AFTER_US:
        assert world.clock.now_ms() < world.true_ms + STEP_AFTER_US // 1_000 // SLEW + 1
        world.advance(1_000)
    assert world.clock.now_ms() == world.true_ms + HOUR_MS


def test_a_lag_that_comes_and_goes_never_leaps() -> None:
    world = World(voters=1)
    world.clock.now_ms()
    for _ in range(4):
        for ahead_us in (STEP_US + 1_000_000, 0):
            world.ahead_us = ahead_us
            world.advance(40_000)
            world.clock.now_ms()
    assert world.clock.now_ms() <= world.true_ms + 40_000 // SLEW


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5_000_000),  # microseconds that pass
            st.integers(-HOUR_MS, HOUR_MS),  # what happens to the wall clock
            st.sampled_from(["none", "n2", "n3"]),
            st.integers(-HOUR_MS, HOUR_MS),  # how wrong a peer's sample is
        ),
        max_size=60,
    )
)
def test_within_a_term_it_runs_about_as_fast_as_the_machine(
    steps: list[tuple[int, int, str, int]],
) -> None:
    world = World()
    last, began = world.clock.now_ms(), world.mono_us
    for passed_us, jump_ms, peer, error_ms in steps:
        world.mono_us += passed_us
        world.ahead_us = jump_ms * 1_000
        if peer != "none":
            world.clock.observe(peer, world.true_ms + error_ms)
        now = world.clock.now_ms()
        # Sixty times five seconds: some are behind for so long that they may leap.
        most = (now - last) * 1_000 <= passed_us + passed_us // SLEW + 1_000
        assert most or world.mono_us - began >= STEP_AFTER_US
        assert (now - last) * 1_000 >= passed_us - passed_us // SLEW - 1_000
        last = now


def test_a_sample_that_came_late_does_not_make_its_sender_slow() -> None:
    """Else log time lags until one comes in time, then leaps, and a timer begun before is short."""
    world = World()
    for peer in ("n2", "n3"):
        world.clock.observe(peer, world.true_ms, took_us=1_000)
    began = world.clock.now_ms()
    world.advance(500)
    for peer in ("n2", "n3"):  # said 190 ms ago, somewhere within the 200 that both ways took
        world.clock.observe(peer, world.true_ms - 190, took_us=200_000)
        world.clock.observe(peer, world.true_ms - 190)
    assert world.clock.now_ms() in range(began + 499, began + 502)


def test_a_clock_that_was_set_is_believed_at_once() -> None:
    world = World()
    for peer in ("n2", "n3"):
        world.clock.observe(peer, EPOCH_MS, took_us=1_000)
        world.clock.observe(peer, EPOCH_MS + HOUR_MS, took_us=50_000)
    assert world.clock.now_ms() == EPOCH_MS + HOUR_MS + 25


def test_an_old_sample_gives_way_to_a_worse_one() -> None:
    world = World()
    for peer in ("n2", "n3"):
        world.clock.observe(peer, EPOCH_MS, took_us=0)
    world.advance(6_000)
    for peer in ("n2", "n3"):
        world.clock.observe(peer, world.true_ms - 20)
    assert world.clock.now_ms() == world.true_ms - 20


def test_a_peer_that_wakes_up_does_not_move_the_time() -> None:
    """It answers questions that waited as long as it slept, all of that on the way to it."""
    world = World()
    for peer in ("n2", "n3"):
        world.clock.observe(peer, world.true_ms, took_us=1_000)
    began = world.clock.now_ms()
    world.advance(12_000)
    for peer in ("n2", "n3"):
        world.clock.observe(peer, world.true_ms, took_us=12_000_000)
    assert world.clock.now_ms() in range(began + 11_999, began + 12_002)
