"""Members of a cluster of real processes change under load; lost and old disks."""

from __future__ import annotations

import concurrent.futures
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import HttpError, call, wait_for, workflow_path
from node_processes import Load, Nodes, Process, nodes_in

GUIDE = Path(__file__).parents[2] / "docs" / "operating.md"

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as found:
        yield found


@pytest.fixture
def three(nodes: Nodes) -> Nodes:
    nodes.bear("n1", "n2", "n3")
    return nodes


def nothing_lost(nodes: Nodes, load: Load) -> None:
    """Each acknowledged run is on every node that is left, with its signal, and no call failed."""
    assert load.failed == [], nodes.logs()
    assert len(load.acknowledged) > 5
    for node in nodes.running():
        for run in load.acknowledged:
            found = call(node.http, "GET", workflow_path(run))
            assert len(found["signals"]) == 1, f"{run} at {node.id}"


def states_agree(nodes: Nodes) -> None:
    """Once idle, all have applied the same and have the same state."""

    def agreed() -> bool:
        state = nodes.state()
        rows = [row for row in state["nodes"] if row["member"] != "removed"] if state else []
        return len({(row["applied_index"], row["state_digest"]) for row in rows}) == 1

    wait_for("all states are the same", agreed)


# ---- growing and shrinking ----------------------------------------------------------------------


def test_three_to_five_and_back_under_load(three: Nodes) -> None:
    with Load(three) as load:
        said = three.add("n4")
        assert "raftflow serve --node-id n4" in said
        assert said.rstrip().endswith("n4 votes")
        three.add("n5")
        three.wait_settled("n1", "n2", "n3", "n4", "n5")
        leader = three.leader()
        follower = next(each for each in ("n1", "n2", "n3") if each != leader)
        for gone in (leader, follower):
            assert f"{gone} is removed" in three.cli("node", "remove", gone)
            status, said = three[gone].ended()
            assert status == 78
            assert f"{gone} was removed from its cluster" in said
        left = {"n1", "n2", "n3", "n4", "n5"} - {leader, follower}
        three.wait_settled(*left)
    nothing_lost(three, load)
    states_agree(three)


def test_followers_and_leaders_are_replaced_under_load(
    three: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    with Load(three) as load:
        for new in ("n4", "n5"):
            leader = three.leader()
            old = leader if new == "n5" else next(i for i in ("n1", "n2", "n3") if i != leader)
            # The process may run before anybody knows of it.
            three[new].start(*joining(three, new, *three.members()))
            said = three.cli("node", "replace", old, f"{new}={three[new].raft}")
            assert f"{new} votes in the place of {old}" in said
            assert three[old].ended()[0] == 78
        three.wait_settled(*({"n1", "n2", "n3", "n4", "n5"} & set(three.members())))
        assert len(three.members()) == 3
    nothing_lost(three, load)
    states_agree(three)
    with capsys.disabled():
        print(f"\nreplacing follower and leader: {len(load.acknowledged)} runs,", end=" ")
        print(f"longest pause {load.slowest_s * 1000:.0f} ms")


def joining(nodes: Nodes, node_id: str, *others: str) -> tuple[str, ...]:
    state = nodes.state()
    assert state is not None
    return (*("--cluster-id", state["cluster_id"], "--join", nodes.peers(*others)),)


def test_one_node_grows_to_three(nodes: Nodes) -> None:
    nodes["n1"].start()
    nodes.wait_settled("n1")
    with Load(nodes) as load:
        nodes.add("n2")
        nodes.add("n3")
        nodes.wait_settled("n1", "n2", "n3")
    nothing_lost(nodes, load)
    # Each starts again with its old command line: who belongs to the cluster is on its disk.
    for each in ("n1", "n2", "n3"):
        nodes[each].stop()
    nodes["n1"].start()
    nodes["n2"].start("--join", nodes.peers("n1"))
    nodes["n3"].start("--join", nodes.peers("n1"))
    nodes.wait_settled("n1", "n2", "n3")
    states_agree(nodes)


def test_a_leader_that_is_killed_in_the_middle_of_an_add(three: Nodes) -> None:
    with Load(three), concurrent.futures.ThreadPoolExecutor(1) as pool:
        leader = three.leader()
        new = three["n4"]
        new.start(*joining(three, "n4", "n1", "n2", "n3"))
        adding = pool.submit(three.try_cli, "node", "add", f"n4={new.raft}", "--timeout", "60s")
        wait_for("the add has begun", lambda: "n4" in three.members() or adding.done())
        three[leader].stop(signal.SIGKILL)
        done = adding.result(90)
        assert done.returncode == 0, done.stdout + done.stderr
        three[leader].start("--peers", three.peers("n1", "n2", "n3"))
        three.wait_settled("n1", "n2", "n3", "n4")
    states_agree(three)


def test_two_adds_at_once_both_come_about(three: Nodes) -> None:
    for new in ("n4", "n5"):
        three[new].start(*joining(three, new, "n1", "n2", "n3"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        adding = [
            pool.submit(three.try_cli, "node", "add", f"{each}={three[each].raft}")
            for each in ("n4", "n5")
        ]
        for each in adding:
            assert each.result(90).returncode == 0, each.result().stderr
    three.wait_settled("n1", "n2", "n3", "n4", "n5")


def test_the_commands_of_the_guide_do_what_it_says(nodes: Nodes) -> None:
    """Those of docs/operating.md, in their order, with the addresses of this machine."""
    nodes.bear("n1", "n2", "n3", arguments=("--cluster-id", "shop"))
    add, serve, remove, replace = commands_of("Changing members")
    (rebuild,) = commands_of("A node lost its disk")
    with Load(nodes) as load, concurrent.futures.ThreadPoolExecutor(1) as pool:
        adding = pool.submit(nodes.cli, *translated(nodes, add))
        own = ("--node-id", "--data-dir", "--http-addr", "--grpc-addr", "--metrics-addr")
        nodes["n4"].start(*options(translated(nodes, serve), but=own))
        assert adding.result(90).rstrip().endswith("n4 votes")
        assert "n1 is removed" in nodes.cli(*translated(nodes, remove))
        assert nodes["n1"].ended()[0] == 78
        nodes["n6"].start(*joining(nodes, "n6", "n2", "n3", "n4"))
        nodes.cli(*translated(nodes, replace))
        assert nodes["n2"].ended()[0] == 78
        nodes.wait_settled("n3", "n4", "n6")
        nodes["n3"].stop()
        words = [str(nodes["n3"].data) if "/" in word else word for word in rebuild.split()[1:]]
        nodes.cli(*words, "--yes")
        # With the command line of its birth, most of whose nodes are gone.
        nodes["n3"].start("--peers", nodes.peers("n1", "n2", "n3"), "--cluster-id", "shop")
        nodes.wait_settled("n3", "n4", "n6")
    nothing_lost(nodes, load)
    states_agree(nodes)


def commands_of(section: str) -> list[str]:
    text = GUIDE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", text, re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("raftflow ")]


def translated(nodes: Nodes, command: str) -> list[str]:
    return re.sub(
        r"10\.0\.0\.(\d):9233", lambda found: nodes[f"n{found[1]}"].raft, command
    ).split()[1:]


def options(words: list[str], *, but: tuple[str, ...]) -> list[str]:
    pairs = zip(words[1::2], words[2::2], strict=True)
    return [word for pair in pairs if pair[0] not in but for word in pair]


# ---- what is refused ----------------------------------------------------------------------------


def test_what_cannot_be_is_refused_with_the_reason(three: Nodes) -> None:
    before = three.cli("node", "list")
    for arguments, status, said in (
        (("add", f"n2={three['n2'].raft}"), 1, "n2 is a member already"),
        (("add", f"n4={three['n2'].raft}"), 1, "is the address of n2 already"),
        (("add", "n4=host"), 2, "is not host:port"),
        (("add", "n4=::1:9233"), 2, "[address]:port"),
        (("add", "n4=:9233"), 1, "nobody can connect to 0.0.0.0:9233"),
        (("add", "n 4=h:1"), 1, "1 to 64 letters"),
        (("add", "ñ4=h:1"), 1, "1 to 64 letters"),
        (("remove", "n9"), 1, "n9 is no member; the members are n1, n2, n3"),
        (("remove", "a/b ☃"), 1, "is no member"),
        (("replace", "n9", "n4=h:1"), 1, "n9 is no member"),
        (("replace", "n1", "n1=h:1"), 2, "cannot take its own place"),
    ):
        done = three.try_cli("node", *arguments)
        assert (done.returncode, said in done.stderr) == (status, True), (arguments, done)
    assert three.cli("node", "list") == before


def test_a_node_that_never_comes_harms_nothing_and_is_taken_back(three: Nodes) -> None:
    done = three.try_cli("node", "add", "n6=[::1]:1", "--timeout", "2s")
    assert done.returncode == 3
    assert "n6 does not vote yet (n6 is not connected: start it" in done.stderr
    state = three.state()
    assert state is not None
    assert state["pending_change"] == "n6 votes once it has the log: it is not connected"
    assert "n6 is removed" in three.cli("node", "remove", "n6")
    three.wait_settled("n1", "n2", "n3")


def test_a_node_that_was_taken_back_before_it_came_can_be_added_again(three: Nodes) -> None:
    """It reads in the log that it was removed, and that is over."""
    fourth = three["n4"]
    for _ in range(2):
        three.cli("node", "add", f"n4={fourth.raft}", "--no-wait")
        three.cli("node", "remove", "n4")
    three.add("n4")
    three.wait_settled("n1", "n2", "n3", "n4")
    assert "n4 is removed" in three.cli("node", "remove", "n4")
    status, said = fourth.ended()
    assert status == 78
    assert "n4 was removed from its cluster" in said


def test_what_would_leave_no_majority_is_refused(three: Nodes) -> None:
    leader = three.leader()
    away, other = (each for each in ("n1", "n2", "n3") if each != leader)
    three[away].stop()
    wait_for("the leader misses it", lambda: not connected(three, leader, away))
    done = three.try_cli("node", "remove", other)
    assert done.returncode == 1
    assert f"only 1 can answer ({away} cannot)" in done.stderr
    assert f"{away} is removed" in three.cli("node", "remove", away)
    three.wait_settled(leader, other)
    body = {}
    for each in (other, leader):
        try:
            call(three[leader].http, "DELETE", f"/api/cluster/nodes/{each}")
        except HttpError as error:
            body = error.body
    assert (body["reason"], "last voter" in body["error"]) == ("MEMBERSHIP_REFUSED", True)


def connected(nodes: Nodes, at: str, peer: str) -> bool:
    state = call(nodes[at].http, "GET", "/api/cluster")
    return bool(next(row["connected"] for row in state["nodes"] if row["id"] == peer))


# ---- disks --------------------------------------------------------------------------------------


def test_a_wiped_node_does_not_vote_until_it_has_everything(three: Nodes) -> None:
    with Load(three) as load:
        pass
    disk = row(three, "n3")["incarnation"]
    peers = ("--peers", three.peers("n1", "n2", "n3"))
    three["n2"].stop()
    three["n3"].stop()
    shutil.rmtree(three["n3"].data)
    three["n3"].start(*peers)
    # n1 and an empty n3 are no majority: n3's word is about a disk that is gone.
    wait_for("n3 answers", lambda: health(three, "n3"))
    term = health(three, "n1")["term"]
    with pytest.raises(AssertionError):
        wait_for("a leader", three.state, timeout=4.0)
    assert health(three, "n1")["term"] == term, "nobody even campaigned"
    three["n2"].start(*peers)
    wait_for("n3 is seen to learn", lambda: "came back with another disk" in leader_log(three))
    three.wait_settled("n1", "n2", "n3")
    assert row(three, "n3")["incarnation"] not in (None, "", disk)
    assert "n3 has caught up" in leader_log(three)
    nothing_lost(three, load)
    states_agree(three)


def test_an_old_copy_of_a_data_directory_is_refused_and_rebuilt(three: Nodes) -> None:
    for returning in ("n1", "n3"):  # the one dials the others, the other is dialled
        node = three[returning]
        peers = ("--peers", three.peers("n1", "n2", "n3"))
        copy = node.directory / "copy"
        if returning == "n1":
            node.stop()
            shutil.copytree(node.data, copy)
            node.start(*peers)
            three.wait_settled("n1", "n2", "n3")
        else:
            snapshot_of_the_running(node, copy, told=three["n2"])
        with Load(three) as load:
            pass
        node.stop()
        shutil.rmtree(node.data)
        shutil.move(copy, node.data)
        node.start(*peers)
        status, said = node.ended()
        assert status == 78
        assert "is an old copy" in said
        assert f"`raftflow node rebuild {node.data}`" in said
        rebuilt = three.cli("node", "rebuild", str(node.data), "--yes")
        assert f"set aside in {node.data}/damaged-" in rebuilt
        node.start(*peers)
        three.wait_settled("n1", "n2", "n3")
        nothing_lost(three, load)
    states_agree(three)


def snapshot_of_the_running(node: Process, copy: Path, *, told: Process) -> None:
    """As a virtual machine's: all at one moment. Returns when the count has gone on."""
    assert node.process is not None
    node.process.send_signal(signal.SIGSTOP)
    shutil.copytree(node.data, copy)
    node.process.send_signal(signal.SIGCONT)
    copied = json.loads((copy / "node.json").read_text())["boots"]

    def seen() -> int:
        seen = json.loads((told.data / "peers.json").read_text())["peers"]
        return int(seen[node.id][-1]["boots"])

    wait_for("the count goes on", lambda: seen() > copied)


def test_two_empty_disks_of_three_do_not_make_a_new_cluster(three: Nodes) -> None:
    with Load(three) as load:
        pass
    for each in ("n2", "n3"):
        three[each].stop()
        shutil.rmtree(three[each].data)
    for each in ("n2", "n3"):
        three[each].start("--peers", three.peers("n1", "n2", "n3"))
    for _ in range(2):  # also after their next start, when n1 has met the new disks
        for each in ("n2", "n3"):
            wait_for(f"{each} answers", lambda each=each: health(three, each))
        with pytest.raises(AssertionError):
            wait_for("a leader", three.state, timeout=5.0)
        for each in ("n2", "n3"):
            three[each].stop()
            three[each].start("--peers", three.peers("n1", "n2", "n3"))
    assert three["n1"].process is not None
    assert three["n1"].process.poll() is None, "what is left is left alone"
    assert len(load.acknowledged) > 5


def test_a_removed_node_that_is_started_again_says_why_and_does_no_harm(three: Nodes) -> None:
    for gone in ("n1", "n3"):
        three.cli("node", "remove", gone)
        assert three[gone].ended()[0] == 78
        before = three.state()
        assert before is not None
        three[gone].start("--peers", three.peers("n1", "n2", "n3"))
        status, said = three[gone].ended()
        assert status == 78
        assert f"{gone} does not belong to its cluster any more" in said
        assert f"`raftflow node add {gone}={three[gone].raft}`" in said
        after = three.state()
        assert after is not None
        assert (after["leader"], after["term"]) == (before["leader"], before["term"])
        # What it says is what helps.
        three.cli("node", "rebuild", str(three[gone].data), "--yes")
        three.add(gone)
        three.wait_settled("n1", "n2", "n3")


def test_rebuild_is_careful(three: Nodes) -> None:
    running = three.try_cli("node", "rebuild", str(three["n1"].data), "--yes")
    assert running.returncode == 1
    assert "in use by process" in running.stderr
    three["n1"].stop()
    asked = three.try_cli("node", "rebuild", str(three["n1"].data))  # nobody answers
    assert asked.returncode == 130
    assert "It will fetch everything from n2, n3" in asked.stderr
    assert (three["n1"].data / "state.db").exists()


def health(nodes: Nodes, node_id: str) -> dict[str, object]:
    try:
        answer: dict[str, object] = call(nodes[node_id].http, "GET", "/api/health", timeout=2.0)
    except (OSError, HttpError):
        return {}
    return answer


def row(nodes: Nodes, node_id: str) -> dict[str, object]:
    state = nodes.state()
    assert state is not None
    return next(each for each in state["nodes"] if each["id"] == node_id)


def leader_log(nodes: Nodes) -> str:
    """What whoever led has said of changes."""
    return "\n".join(
        line
        for node in nodes.running()
        for line in node.log.read_text().splitlines()
        if line.startswith("{") and json.loads(line)["event"] == "membership_change_proposed"
    )
