"""Nodes are killed while somebody looks on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from browsing import Visit, Visitor
from dev_cluster import wait_for
from site_nodes import IDS, Site

pytestmark = pytest.mark.cluster

# A browser says in its console that nobody answers at an address; and a node that has just started
# does not know yet whose pages may ask it.
GONE = (r"net::ERR_", r"status of 50[023]", r"blocked by CORS policy")
# From the loss to the news on the screen: what the page promises, so it is asserted.
WITHIN_S = 3.0


@pytest.fixture(scope="module", autouse=True)
def worker(site: Site) -> None:
    site.work()


@pytest.fixture(autouse=True)
def whole(site: Site) -> Iterator[None]:
    yield
    site.revive()


def marked(visitor: Visitor) -> None:
    """A reload would lose the mark."""
    visitor.page.evaluate("window.notReloaded = true")


def was_reloaded(visitor: Visitor) -> bool:
    return not visitor.page.evaluate("window.notReloaded === true")


def watch_for_leader(visitor: Visitor, old: str, term: int) -> None:
    """The page itself notes when its own text tells of another leader, of a later term, and of the
    election: asking from outside would count our own slowness."""
    visitor.page.evaluate(
        """([old, term]) => {
          const told = () => {
            const head = document.getElementById("summary").textContent;
            const [, leader, seen] = /^(\\S+) leads . term (\\d+)/.exec(head) ?? [];
            const row = document.querySelector(".elections tbody tr")?.textContent ?? "";
            const here = document.querySelector(".leads strong").textContent;
            if (!leader || leader === old || Number(seen) <= term) return;
            if (here !== `${leader} leads` || !row.includes(leader) || !row.includes(seen)) return;
            window.newsAt ??= Date.now();
          };
          new MutationObserver(told).observe(document.body, {
            subtree: true, childList: true, characterData: true,
          });
        }""",
        [old, term],
    )


def test_the_leader_is_killed(visit: Visit, site: Site) -> None:
    old = site.nodes.leader()
    state = site.nodes.state()
    assert state is not None
    home = next(each for each in IDS if each != old)
    visitor = visit("viewer", node=home)
    visitor.expect(*GONE)
    visitor.open()
    visitor.sees(f"{old} leads")
    visitor.until("the page is told by events", lambda: "live" in visitor.text())
    marked(visitor)
    watch_for_leader(visitor, old, state["term"])
    killed_at = time.time()
    site.kill(old)
    news_at = visitor.until("the page tells of it", lambda: visitor.page.evaluate("window.newsAt"))
    assert not was_reloaded(visitor)
    took = news_at / 1000 - killed_at
    assert took < WITHIN_S, f"the page told of the new leader after {took:.1f} s"
    # The thread of the one that is gone says so, and the log of elections why.
    head = visitor.page.locator(f'th[data-node="{old}"]')
    visitor.until("its thread tells", lambda: "away" in head.inner_text())
    newest = visitor.page.get_by_role("region", name="Elections").locator("tbody tr").first
    assert old in newest.inner_text()
    site.revive()
    visitor.until("it is back", lambda: "follower" in head.inner_text())
    assert not was_reloaded(visitor)


@pytest.mark.parametrize("leads", [False, True])
def test_the_node_of_the_page_is_killed(visit: Visit, site: Site, leads: bool) -> None:
    leader = site.nodes.leader()
    home = leader if leads else next(each for each in IDS if each != leader)
    visitor = visit("user", node=home)
    visitor.expect(*GONE)
    visitor.open()
    visitor.sees(f"{leader} leads")
    marked(visitor)
    site.kill(home)
    seen = visitor.page.locator("#seen")
    visitor.until(
        "another node tells, live",
        lambda: home not in seen.inner_text() and "live" in seen.inner_text(),
    )
    head = visitor.page.locator(f'th[data-node="{home}"]')
    visitor.until("the thread of its node is cut", lambda: "away" in head.inner_text())
    # Everything goes on there: views, and what changes something.
    visitor.page.get_by_role("button", name="Start workflow").click()
    name = f"without-{home}-{leads}"
    visitor.fill("Start a workflow", "Start", type="Waiting", workflow_id=name)
    visitor.page.get_by_role("heading", name=name).wait_for()
    visitor.open("#/runs")
    visitor.page.get_by_role("link", name=name).wait_for()
    assert not was_reloaded(visitor)
    assert visitor.page.locator("#banner").is_hidden()
    wait_for("the run is there", lambda: site.describe(name)["status"])


def test_no_majority_and_back(visit: Visit, site: Site) -> None:
    home = site.nodes.leader()
    visitor = visit("viewer", node=home)
    visitor.expect(*GONE)
    visitor.open()
    visitor.sees(f"{home} leads")
    marked(visitor)
    for each in IDS:
        if each != home:
            site.kill(each)
    visitor.sees("No leader")
    assert visitor.page.locator("#selvage").get_attribute("data-health") == "bad"
    site.revive()
    summary = visitor.page.locator("#summary")
    visitor.until("somebody leads", lambda: " leads" in summary.inner_text())
    visitor.until("all is well", lambda: visitor.page.locator("#banner").is_hidden())
    assert not was_reloaded(visitor)


def test_no_node_answers_and_back(visit: Visit, site: Site) -> None:
    visitor = visit("viewer")
    visitor.expect(*GONE)
    visitor.open("#/runs")
    visitor.page.get_by_role("heading", name="Runs").wait_for()
    marked(visitor)
    for each in IDS:
        site.kill(each)
    visitor.page.locator("#banner").get_by_text("No node answers").wait_for()
    site.revive()
    visitor.until("all is well", lambda: visitor.page.locator("#banner").is_hidden())
    assert not was_reloaded(visitor)
