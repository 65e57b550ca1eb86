from __future__ import annotations

import pytest
from why_facts import NOW_MS, Picture, causes

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.members import Members
from raftflow.cluster.why.model import Link, Moment
from raftflow.cluster.why.reach import is_away, links_of_away, not_a_member


def away(picture: Picture, name: str = "n3") -> Link:
    """The reason at the end of the chain."""
    members = Members.of(picture.facts)
    chain = links_of_away(members, name)
    assert causes(chain)[0] is Cause.NODE_UNREACHABLE
    return chain[-1]


def test_it_says_who_misses_it_since_when_and_who_does_not() -> None:
    picture = Picture()
    picture.lost("n1", "n3", "no_answer", for_ms=9_000)
    seen = links_of_away(Members.of(picture.facts), "n3")[0]
    assert seen.says == "n3 is not reached by n1 for 9 s; n2 reaches it."
    assert seen.evidence == {
        "node": "n3",
        "address": "host-n3:9233",
        "missed_by": ("n1",),
        "reached_by": ("n2",),
        "since": Moment(NOW_MS - 9_000),
    }


@pytest.mark.parametrize(
    ("trouble", "cause", "words"),
    [
        ("connection_refused", Cause.PROCESS_DOWN, "Nothing listens at host-n3:9233"),
        ("silent", Cause.NODE_FROZEN, "its process says nothing"),
        ("fell_silent", Cause.NODE_FROZEN, "or what is between them drops everything"),
        ("unknown_host", Cause.LINK_DOWN, "cannot resolve the host"),
        ("one_way", Cause.LINK_DOWN, "lets only one of them open connections"),
        ("no_answer", Cause.LINK_DOWN, "gets no answer from host-n3:9233"),
        ("no_route", Cause.LINK_DOWN, "gets no answer from host-n3:9233"),
        ("hung_up", Cause.LINK_DOWN, "gets no answer"),
        ("not_tried", Cause.LINK_DOWN, "gets no answer"),
    ],
)
def test_what_was_met_last_says_what_it_is(trouble: str, cause: Cause, words: str) -> None:
    picture = Picture()
    picture.away("n3", trouble)
    assert is_away(Members.of(picture.facts), "n3")
    link = away(picture)
    assert link.cause is cause
    assert words in link.says
    assert link.evidence["trouble"] == trouble
    assert link.next


def test_of_several_that_miss_it_the_one_that_knows_most_is_heard() -> None:
    picture = Picture()
    picture.away("n3", "hung_up")
    picture.lost("n2", "n3", "connection_refused")
    link = away(picture)
    assert link.cause is Cause.PROCESS_DOWN
    assert link.evidence["seen_by"] == "n2"


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        ("its certificate is not trusted: certificate has expired", Cause.CERTIFICATE_EXPIRED),
        ("its certificate is not trusted: unable to get issuer", Cause.TLS_REFUSED),
    ],
)
def test_a_certificate_that_is_not_trusted(detail: str, cause: Cause) -> None:
    picture = Picture()
    picture.away("n3", "hung_up")
    picture.lost("n2", "n3", "tls", detail=detail)
    link = away(picture)
    assert link.cause is cause
    assert detail in link.says
    assert "raftflow cert" in link.next


def test_ones_own_certificate_that_is_over_is_the_reason() -> None:
    picture = Picture()
    picture.rows["n1"]["certificates"] = {"peer": -60}
    picture.away("n3", "tls", detail="it hung up when it had seen this node's certificate")
    link = away(picture)
    assert link.cause is Cause.CERTIFICATE_EXPIRED
    assert "the certificate of n1 is over" in link.says


def test_whoever_should_call_and_is_refused_by_tls_is_known_by_its_host() -> None:
    picture = Picture()
    picture.away("n1", "not_tried")
    picture.asked, picture.leader = "n2", None
    picture.told["n3"]["tls_refused"] = {"host-n1": {"ago_ms": 500, "why": "certificate expired"}}
    link = away(picture, "n1")
    assert link.cause is Cause.CERTIFICATE_EXPIRED
    picture.told["n3"]["tls_refused"]["host-n1"]["ago_ms"] = 99_000  # before it was away
    assert away(picture, "n1").cause is Cause.LINK_DOWN


@pytest.mark.parametrize(
    ("refusal", "cause", "then"),
    [
        ("stale_data: 'n3' comes with start 4", Cause.OLD_COPY, "raftflow node rebuild"),
        ("wrong_cluster: peer is of 'x'", Cause.NODE_REFUSED, "cluster_id"),
        ("wrong_node: called 'n3', reached 'n2'", Cause.NODE_REFUSED, "correct the address"),
        ("wrong_protocol: peer speaks 2", Cause.NODE_REFUSED, "see the log"),
    ],
)
def test_the_last_refusal_says_why_it_ended(refusal: str, cause: Cause, then: str) -> None:
    picture = Picture()
    picture.away("n3")
    picture.lost("n2", "n3", "connection_refused", refusal=refusal, refused_ago_ms=40_000)
    link = away(picture)
    assert link.cause is cause
    assert then in link.next
    picture.told["n2"]["peers"]["n3"]["refused_ago_ms"] = 90_000  # they have been together since
    assert away(picture).cause is Cause.PROCESS_DOWN


def test_a_node_that_ended_itself_for_its_state() -> None:
    picture = Picture()
    picture.away("n3")
    judged = {"index": 480, "peer": "n3", "decided": True, "odd": ["n3"], "ago_ms": 42_300}
    picture.told["n2"]["dispute"] = judged
    link = away(picture)
    assert link.cause is Cause.DIGEST_DIVERGENCE
    assert link.evidence["index"] == 480
    assert "raftflow node rebuild" in link.next


def test_one_that_was_removed_and_calls_still() -> None:
    picture = Picture()
    picture.add("n4")
    picture.away("n4", refusal="not_a_member: 'n4' does not belong", refused_ago_ms=1_000)
    del picture.rows["n4"]
    link = not_a_member(Members.of(picture.facts), "n4")
    assert link.cause is Cause.NOT_A_MEMBER
    assert link.evidence["members"] == ("n1", "n2", "n3")
    assert "It called 1 s ago and was refused." in link.says
    assert "raftflow node add n4=" in link.next
