"""Every view, for a viewer, a user and an admin: what it shows, and what each is offered."""

from __future__ import annotations

import re

import pytest
from browsing import Visit, Visitor
from site_nodes import TOKENS, Site

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def scene(site: Site) -> None:
    """One run of each kind; the rest of the module only looks."""
    site.work()
    site.start("order-1", "Order", input="order-1")
    site.start("order-2", "Order", input="order-2 declined", search_attributes={"region": "north"})
    site.start("meter-1", "Meter", input="1")
    site.start("route-1", "Delivery", input="route-1")
    site.start("pickup-1", "Pickup", input="pickup-1")
    site.start("lost-1", "Order", task_queue="attic")
    for order in ("order-1", "order-2"):
        site.wait_for_step(order, "approved")
        site.call("POST", f"/api/workflows/{order}/signal", {"name": "approved", "payload": "yes"})
    site.wait("order-1", "COMPLETED")
    site.wait("order-2", "FAILED")
    site.wait("meter-1", "COMPLETED")
    site.wait_for_step("pickup-1", "call_carrier")
    site.call("POST", "/api/namespaces", {"name": "shop", "retention_ms": 3_600_000})
    site.call(
        "POST",
        "/api/tokens",
        {"name": "blind", "role": "viewer", "namespaces": [], "sees_payloads": False},
    )


def offered(visitor: Visitor) -> list[str]:
    return visitor.page.get_by_role("navigation").get_by_role("link").all_inner_texts()


def buttons(visitor: Visitor) -> set[str]:
    return set(visitor.page.locator("#view button:visible").all_inner_texts())


def test_who_is_not_known_logs_in(visit: Visit) -> None:
    nobody = visit("")
    nobody.open()
    nobody.log_in(TOKENS["viewer"])
    nobody.sees(" leads")
    assert nobody.page.get_by_role("button", name="Log out").inner_text() == "Log out (viewer)"
    nobody.page.get_by_role("button", name="Log out").click()
    nobody.dialog("This cluster asks for a token")
    # What the session was good for is gone with it.
    assert "rf_session" not in {each["name"] for each in nobody.context.cookies()}


def test_a_wrong_token_is_refused_and_another_may_be_tried(visit: Visit) -> None:
    nobody = visit("")
    nobody.open()
    dialog = nobody.dialog("This cluster asks for a token")
    dialog.get_by_label("Token").fill("no-token-of-this-cluster")
    dialog.get_by_role("button", name="Log in").click()
    dialog.get_by_role("alert").wait_for()
    nobody.log_in(TOKENS["user"])


@pytest.mark.parametrize(
    ("role", "views"),
    [
        ("viewer", ["Cluster", "Runs", "Queues", "Namespaces"]),
        ("user", ["Cluster", "Runs", "Queues", "Namespaces"]),
        ("root", ["Cluster", "Runs", "Queues", "Namespaces", "Tokens", "Audit"]),
    ],
)
def test_views_and_actions_are_those_of_the_role(visit: Visit, role: str, views: list[str]) -> None:
    visitor = visit(role)
    visitor.open()
    visitor.page.get_by_role("region", name="Nodes").get_by_text("n3").first.wait_for()
    assert offered(visitor) == views
    of_admin = {"Transfer leadership", "Add a node", "Make leader", "Snapshot", "Remove"}
    assert buttons(visitor) & of_admin == (of_admin if role == "root" else set())
    assert visitor.page.locator("#start").is_visible() == (role != "viewer")

    visitor.open("#/run/pickup-1/")
    visitor.sees("call_carrier")
    of_user = {"Signal", "Pause", "Cancel", "Terminate"}
    assert buttons(visitor) & of_user == (of_user if role != "viewer" else set())

    visitor.open("#/run/order-1/")
    visitor.sees("COMPLETED")
    assert ("Delete" in buttons(visitor)) == (role != "viewer")

    visitor.open("#/namespaces")
    visitor.sees("shop")
    assert ("Create a namespace" in buttons(visitor)) == (role == "root")
    assert {"Retention", "Quota"} <= buttons(visitor) or role != "root"


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_what_is_not_offered_is_refused_all_the_same(visit: Visit, role: str) -> None:
    visitor = visit(role)
    visitor.expect("403")
    visitor.open("#/tokens")
    visitor.page.get_by_role("alert").get_by_text("admin").first.wait_for()
    refused = visitor.page.evaluate(
        """async () => {
          const headers = {"X-Raftflow-Session": "1", "Content-Type": "application/json"};
          const given = {method: "POST", headers, body: "{}"};
          return (await fetch("/api/cluster/transfer", given)).status;
        }"""
    )
    assert refused == 403


def test_the_cluster_view(visit: Visit, site: Site) -> None:
    visitor = visit("viewer")
    visitor.open()
    leader = site.nodes.leader()
    visitor.sees(f"{leader} leads")
    nodes = visitor.page.get_by_role("region", name="Nodes")
    for fact in (
        *("commit index", "applied index", "match index", "lag", "last contact", "term"),
        *("free", "store", "log", "fsync", "snapshot", "loop lag", "clock skew", "version"),
    ):
        row = nodes.get_by_role("row").filter(
            has=visitor.page.get_by_role("rowheader", name=fact, exact=True)
        )
        cells = row.get_by_role("cell").all_inner_texts()
        assert len(cells) == 3, (fact, cells)
        # No node has cut a log short that hardly began.
        assert fact in ("snapshot", "match index", "fsync") or "–" not in cells, (fact, cells)
    elections = visitor.page.get_by_role("region", name="Elections").get_by_role("row")
    visitor.until("an election is told", lambda: elections.count() > 1)
    assert leader in elections.nth(1).inner_text()
    for chart in ("Commits", "Commit latency", "Queued tasks", "Open runs", "Loop lag"):
        visitor.page.get_by_role("img", name=re.compile(f"^{chart}: ")).wait_for()
    visitor.until("the page is told by events", lambda: "live" in visitor.text())


def test_the_list_of_runs(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/runs")
    runs = visitor.page.locator("table.runs tbody tr")
    visitor.until("all runs are listed", lambda: runs.count() == 11)
    chip = visitor.page.get_by_role("group", name="Status").get_by_role("button")
    visitor.until("they are counted", lambda: "11" in chip.first.inner_text())

    chip.filter(has_text="failed").click()
    visitor.until("one of them failed", lambda: runs.count() == 1)
    assert "order-2" in runs.first.inner_text()
    chip.filter(has_text="all").click()

    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("meter")
    visitor.until("three meters are found", lambda: runs.count() == 3)
    visitor.page.keyboard.press("ControlOrMeta+a")
    visitor.page.keyboard.press("Delete")
    visitor.until("the search is over", lambda: runs.count() == 11)

    attribute = visitor.page.get_by_label("Attribute, as name=value")
    attribute.fill("region=north")
    attribute.press("Enter")
    visitor.until("one is in the north", lambda: runs.count() == 1)
    visitor.page.get_by_role("button", name="no longer only region = north").click()
    visitor.until("the filter is off", lambda: runs.count() == 11)

    visitor.page.get_by_label("Queue", exact=True).fill("attic")
    visitor.until("one is of the attic", lambda: runs.count() == 1)
    runs.first.get_by_role("link").click()
    visitor.sees("lost-1")


def test_a_run_that_failed(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/run/order-2/")
    for text in ("charge failed: card declined", "reserve", "check_address", "release"):
        visitor.sees(text)
    steps = visitor.page.locator(".steps > li")
    steps.filter(has_text="charge").locator("summary").click()
    opened = steps.filter(has_text="charge")
    for text in ("Declined", "packer-1", "up to 4 attempts", "in the history"):
        opened.get_by_text(text).first.wait_for()
    opened.get_by_role("button", name=re.compile("in the history")).click()
    events = visitor.page.get_by_role("region", name="Events").locator("tbody > tr")
    visitor.until("the events of the step", lambda: events.count() == 2)
    search = visitor.page.get_by_label("Search the history")
    search.fill("SignalReceived")
    visitor.until("the signal's event", lambda: events.count() == 1)
    assert "approved" in events.first.inner_text()
    visitor.page.get_by_role("region", name="Why?").get_by_text("Declined").first.wait_for()


def test_steps_side_by_side_overlap(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/run/order-1/")
    visitor.page.get_by_role("img", name=re.compile("^Overview: ")).wait_for()
    steps = visitor.page.locator(".steps > li")
    steps.filter(has_text="reserve").locator("summary").click()
    together = steps.filter(has_text="reserve").get_by_text("check_address")
    together.first.wait_for()
    retried = steps.filter(has_text="charge")
    assert "3 attempts" in retried.inner_text()
    retried.locator("summary").click()
    attempts = retried.get_by_role("region", name="Attempts").locator("tbody tr")
    visitor.until("all attempts", lambda: attempts.count() == 3)
    told = [each.inner_text() for each in attempts.all()]
    assert ["did not answer" in each for each in told] == [True, True, False]
    assert all("packer-1" in each for each in told), told


def test_why_a_run_waits(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/run/lost-1/")
    why = visitor.page.get_by_role("region", name="Why?")
    why.get_by_text("attic").first.wait_for()
    why.get_by_text("Next").first.wait_for()
    visitor.open("#/run/pickup-1/")
    pending = visitor.page.get_by_role("region", name="Pending")
    pending.get_by_role("button", name=re.compile("^why")).first.click()
    dialog = visitor.dialog(re.compile(r"^Why\? "))
    dialog.get_by_text("the carrier's line is busy").first.wait_for()
    visitor.page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_families(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/run/route-1/")
    family = visitor.page.get_by_role("region", name="Family")
    family.get_by_text("Children · 3").wait_for()
    family.get_by_role("link", name="route-1-2", exact=True).click()
    visitor.sees("Child of")
    visitor.page.get_by_role("region", name="Family").get_by_role(
        "link", name="route-1", exact=True
    ).click()
    visitor.sees("Children · 3")
    visitor.open("#/run/meter-1/")
    visitor.page.get_by_role("region", name="Family").get_by_text("Continued as new").wait_for()
    chain = visitor.page.locator(".runs-chain li")
    assert chain.count() == 3
    chain.first.get_by_role("link").click()
    visitor.sees("CONTINUED_AS_NEW")


def test_payloads_are_hidden_from_those_who_may_not_see_them(visit: Visit, site: Site) -> None:
    minted = site.call(
        "POST",
        "/api/tokens",
        {"name": "blind", "role": "viewer", "namespaces": [], "sees_payloads": False},
    )
    visitor = visit("")
    visitor.open("#/run/order-1/")
    visitor.log_in(minted["token"])
    visitor.sees("hidden from this token")
    assert "Download .history" not in buttons(visitor)
    assert "is on its way" not in visitor.text()


def test_queues_and_workers(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/queues")
    queues = visitor.page.get_by_role("region", name="Queues")
    attic = queues.get_by_role("row").filter(has_text="attic")
    attic.get_by_text("nobody").wait_for()
    attic.get_by_role("button", name=re.compile("why")).click()
    dialog = visitor.dialog(re.compile(r"^Why\? "))
    dialog.get_by_text("attic").first.wait_for()
    dialog.get_by_role("button", name="Close").click()
    visitor.page.get_by_role("region", name="Workers").get_by_text("packer-1").first.wait_for()
    visitor.page.get_by_role("searchbox").fill("attic")
    visitor.until("others are left out", lambda: queues.locator("tbody tr").count() == 1)


def test_the_views_of_an_admin(visit: Visit) -> None:
    visitor = visit()
    visitor.open("#/tokens")
    visitor.page.get_by_role("region", name="Tokens").get_by_text("blind").first.wait_for()
    visitor.page.get_by_label("sessions").check()
    visitor.sees("session of")
    visitor.open("#/audit")
    entries = visitor.page.get_by_role("region", name="Audit log")
    entries.get_by_text("CreateNamespace").first.wait_for()
    visitor.page.get_by_label("Call").fill("SignalWorkflow")
    rows = entries.locator("tbody tr")
    visitor.until("two signals", lambda: rows.count() == 2)
    assert "file:root" in rows.first.inner_text()
    assert "order-2" in rows.first.inner_text()


def test_a_link_of_the_first_release_works_still(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/?status=FAILED")
    visitor.until("it is the list", lambda: "order-2" in visitor.text())
