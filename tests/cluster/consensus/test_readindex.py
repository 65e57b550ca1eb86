from collections.abc import Mapping

from raftflow.cluster.consensus.readindex import Confirmed, ForwardedReads, LeaderReads


def needs(peers: int) -> Confirmed:
    """The newest round that so many peers have answered."""

    def confirmed(echoed: Mapping[str, int], own: int) -> int:
        return sorted([own, *echoed.values(), *[0] * peers], reverse=True)[peers]

    return confirmed


def test_reads_share_a_round_and_get_the_index_of_its_beginning() -> None:
    reads, answers = LeaderReads(needs(1)), []
    reads.add(answers.append)
    reads.add(answers.append)
    reads.open_round(10)
    reads.add(answers.append)  # too late for this round
    reads.echo("b", reads.round)
    assert answers == [10, 10]
    assert reads.waiting


def test_an_answer_to_an_earlier_message_confirms_nothing() -> None:
    reads, answers = LeaderReads(needs(1)), []
    reads.add(answers.append)
    before = reads.round
    reads.open_round(10)
    reads.echo("b", before)
    assert answers == []


def test_a_majority_confirms() -> None:
    reads, answers = LeaderReads(needs(2)), []
    reads.add(answers.append)
    reads.open_round(10)
    reads.echo("b", reads.round)
    reads.echo("b", reads.round)
    assert answers == []
    reads.echo("c", reads.round)
    assert answers == [10]


def test_a_single_node_confirms_itself() -> None:
    reads, answers = LeaderReads(needs(0)), []
    reads.add(answers.append)
    reads.open_round(3)
    assert answers == [3]


def test_other_voters_may_confirm_what_waits() -> None:
    needed = [2]

    def confirmed(echoed: Mapping[str, int], own: int) -> int:
        return needs(needed[0])(echoed, own)

    reads, answers = LeaderReads(confirmed), []
    reads.add(answers.append)
    reads.open_round(10)
    reads.echo("b", reads.round)
    assert answers == []
    needed[0] = 1
    reads.confirm()
    assert answers == [10]


def test_all_fail_when_leadership_ends() -> None:
    reads, answers = LeaderReads(needs(1)), []
    reads.add(answers.append)
    reads.open_round(10)
    reads.add(answers.append)
    reads.fail()
    assert answers == [None, None]


def test_forwarded_reads_are_answered_expire_or_fail_once() -> None:
    reads, answers = ForwardedReads(first_id=5), []
    reads.add(answers.append)
    first = reads.send(deadline_s=1.0)
    reads.add(answers.append)
    second = reads.send(deadline_s=2.0)
    reads.answered(first, 4)
    reads.answered(first, 9)
    reads.expire(1.5)
    assert answers == [4]
    reads.expire(2.0)
    assert answers == [4, None]
    reads.answered(second, 8)
    reads.add(answers.append)
    reads.fail()
    assert answers == [4, None, None]
