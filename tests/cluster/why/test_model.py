"""The chain as one sentence."""

import pytest

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Answer, Link, Severity


def answer(*sentences: str) -> Answer:
    links = [
        Link(cause=Cause.RUN_WAITS, severity=Severity.WAITING, says=sentence)
        for sentence in sentences
    ]
    return Answer(subject={"kind": "run"}, links=tuple(links))


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        (["It waits."], "It waits."),
        (["A waits.", "B is queued.", "No worker polls C."], "A waits, because no worker polls C."),
        (["A waits.", "Order 'x' is paused."], "A waits, because Order 'x' is paused."),
    ],
)
def test_what_is_seen_and_what_it_comes_down_to(sentences: list[str], said: str) -> None:
    assert answer(*sentences).sentence == said


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["", ""], ["", ""]),
        (["a", ""], ["a", ""]),
        (["a", "b"], ["", "b"]),
        (["a", "b", ""], ["", "b", ""]),
    ],
)
def test_there_is_one_thing_to_do(given: list[str], kept: list[str]) -> None:
    links = [
        Link(cause=Cause.RUN_WAITS, severity=Severity.WAITING, says="It waits.", next=each)
        for each in given
    ]
    assert [link.next for link in Answer.of({}, links).links] == kept
