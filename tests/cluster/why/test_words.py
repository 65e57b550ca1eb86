"""Times, counts and names as sentences say them; commands as a shell takes them."""

import subprocess

import pytest

from raftflow.cluster.why.words import at, command, count, moment, names, quoted, shortened, span

NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 ms"),
        (850, "850 ms"),
        (1_000, "1 s"),
        (119_000, "119 s"),
        (240_000, "4 min"),
        (3 * 3_600_000, "3 h"),
        (72 * 3_600_000, "3 days"),
    ],
)
def test_a_duration_has_the_unit_that_people_use(ms: int, said: str) -> None:
    assert span(ms) == said


def test_a_moment_says_how_far_away_it_is() -> None:
    assert moment(NOW_MS) == "2025-06-15 15:06:40 UTC"
    assert at(NOW_MS + 12_000, NOW_MS) == "2025-06-15 15:06:52 UTC (in 12 s)"
    assert at(NOW_MS - 3_000, NOW_MS) == "2025-06-15 15:06:37 UTC (3 s ago)"


def test_counts_and_names() -> None:
    assert [count(n, "task") for n in (1, 2, 1_204)] == ["1 task", "2 tasks", "1,204 tasks"]
    assert count(2, "entry", "entries") == "2 entries"
    assert [names(list("abcdefg"[:n])) for n in (0, 1, 2, 3)] == ["", "a", "a and b", "a, b and c"]
    assert names("abcdefg") == "a, b, c, d, e and 2 more"


def test_what_others_wrote_stays_on_its_line() -> None:
    hostile = "a\nb\x1b[31m\u202edlrow"
    assert quoted(hostile) == r"'a\nb\x1b[31m\u202edlrow'"
    assert len(shortened("x" * 5_000)) == 200


@pytest.mark.parametrize(
    "hostile", ["a b", "$(reboot)", "it's", "`id`", "`", "a'`'b", "a;b", "日本"]
)
def test_a_command_survives_the_shell(hostile: str) -> None:
    line = command("workflow signal", hostile, "go", namespace="shop", run_id="r1")
    _, inner, _ = line.split("`")  # nobody's name ends the command
    printed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {inner}"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split("\0")[:-1] == [
        *("raftflow", "workflow", "signal", hostile, "go"),
        *("--namespace", "shop", "--run-id", "r1"),
    ]


def test_what_people_chose_is_no_command() -> None:
    assert quoted("a `rm -rf /` b") == r"'a \x60rm -rf /\x60 b'"
    assert quoted("w.") == "'w.'"
    assert shortened("It broke.") == "It broke"


def test_a_name_that_looks_like_an_option() -> None:
    line = command("workflow signal", "-rf", "go", options=("--payload", "TEXT"))
    assert line == "`raftflow workflow signal --payload TEXT -- -rf go`"
