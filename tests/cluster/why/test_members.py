from __future__ import annotations

from why_facts import NOW_MS, Picture

from raftflow.cluster.why.members import Members


def test_who_answers_votes_and_is_reached() -> None:
    picture = Picture()
    picture.add("n4", "api")
    picture.away("n3")
    members = Members.of(picture.facts)
    assert [each.id for each in members.voters] == ["n1", "n2", "n3"]
    assert members.majority == 2
    assert [each.id for each in members.answering] == ["n1", "n2", "n4"]
    assert members["n1"].reaches("n2")
    assert not members["n1"].reaches("n3")
    assert members.leader is members["n1"] is members.asked
    assert members.ago(1_500.4) == NOW_MS - 1_500


def test_a_node_of_an_older_release_answers_without_telling_more() -> None:
    picture = Picture()
    del picture.told["n2"]
    node = Members.of(picture.facts)["n2"]
    assert node.answers
    assert node.of("log") == {}
    assert node.contact("n1") == {}
    assert node.number("applied_index") == 500
    assert node.number("log_bytes") is None
