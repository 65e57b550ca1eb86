"""A stored run is read as it was written, and its report is whole."""

from pathlib import Path

from tests.jepsen import report, store
from tests.jepsen.checker.verdict import verdict
from tests.jepsen.history import INVOKE, OK, History, Op, load
from tests.jepsen.observer import Sample

S = 1_000_000_000
META = store.Meta(
    command="python -m tests.jepsen run --seed 7",
    seed=7,
    nodes=("n1", "n2"),
    workloads=("starts",),
    nemeses=("kill",),
    seconds=10.0,
    hosts="loopback",
    left_out=("networks: they need root",),
    version="0",
    commit="abc",
    begun="then",
    begun_ns=1 * S,
)


def test_meta_comes_back(tmp_path: Path) -> None:
    store.write_meta(tmp_path, META)
    assert store.read_meta(tmp_path) == META


def test_the_report_tells_everything_and_needs_no_other_file(tmp_path: Path) -> None:
    with History(tmp_path / store.HISTORY) as history:
        told = {"did": "kill -9 n1", "nodes": ["n1"], "ends_nodes": False}
        history.record(Op("nemesis/process", "kill-leader", INVOKE, value=told, time_ns=3 * S))
        history.record(Op("starts/0", "start", INVOKE, key="<w>", time_ns=4 * S))
        history.record(Op("starts/0", "start", OK, key="<w>", time_ns=5 * S))
        history.record(Op("nemesis/process", "kill-leader", OK, value="killed", time_ns=6 * S))
    samples = [
        Sample(t * S, node, 1, role=role, term=3, leader="n2", rss_kib=1024, descriptors=9)
        for t in range(2, 8)
        for node, role in (("n1", "follower"), ("n2", "leader"))
    ]
    verdicts = {"starts": verdict(["<lost>"], starts=1), "quiet": verdict([])}
    report.write(tmp_path, META, load(tmp_path / store.HISTORY), samples, verdicts)
    page = (tmp_path / store.REPORT).read_text()
    for words in ("kill -9 n1", "&lt;lost&gt;", "violated", META.command, "they need root"):
        assert words in page
    assert "src=" not in page
    assert "href=" not in page
    assert "n2 leader, term 3" in page


def test_a_summary_has_a_line_a_verdict_and_a_line_a_complaint() -> None:
    lines = store.summary({"a": verdict([], n=1), "b": verdict(["broken"])})
    assert [line.split()[0] for line in lines] == ["ok", "FAIL", "broken"]
