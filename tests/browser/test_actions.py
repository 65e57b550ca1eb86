"""Every action: of a user on runs, of an admin on the cluster, namespaces and tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from browsing import Visit, Visitor
from dev_cluster import wait_for
from site_nodes import TOKENS, Site

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def worker(site: Site) -> None:
    site.work()


def status(visitor: Visitor, *wanted: str) -> None:
    head = visitor.page.locator(".run-head .pill")
    visitor.until(f"it is {wanted}", lambda: head.count() and head.first.inner_text() in wanted)


def test_a_run_from_its_start_to_its_end(visit: Visit, site: Site, tmp_path: Path) -> None:
    user = visit("user")
    user.open("#/runs")
    user.page.get_by_role("button", name="Start workflow").click()
    user.fill("Start a workflow", "Start", type="Order", workflow_id="act-1", input="act-1")
    user.sees("approved")

    user.press_button("Pause")
    user.fill("Pause this run?", "Pause the run", reason="stock-taking")
    user.told("The run is paused.")
    status(user, "PAUSED")
    user.sees("stock-taking")
    user.press_button("Unpause")
    user.fill("Let this run go on?", "Unpause the run")
    user.told("The run goes on.")
    status(user, "RUNNING", "WAITING")

    user.press_button("Signal")
    user.fill("Send a signal", "Send", name="approved", payload="yes")
    user.told("The signal approved is delivered.")
    status(user, "COMPLETED")

    with user.page.expect_download() as saving:
        user.press_button("Download .history")
    target = tmp_path / saving.value.suggested_filename
    saving.value.save_as(target)
    assert target.suffix == ".history"
    assert "events" in site.nodes.cli("history", "verify", str(target))

    user.press_button("Delete")
    user.fill("Forget this run?", "Delete the run")
    user.told("The run is deleted.")
    user.page.get_by_role("heading", name="Runs").wait_for()
    assert site.call("GET", "/api/workflows?q=act-1")["total"] == 0


def test_a_start_that_is_refused_keeps_what_was_typed(visit: Visit) -> None:
    user = visit("user")
    user.expect(r"status of 4\d\d")
    user.open("#/runs")
    user.page.get_by_role("button", name="Start workflow").click()
    dialog = user.dialog("Start a workflow")
    dialog.get_by_label("Type", exact=True).fill("Order")
    dialog.get_by_label("Namespace").fill("nowhere")
    dialog.get_by_role("button", name="Start", exact=True).click()
    dialog.get_by_role("alert").get_by_text("nowhere").wait_for()
    assert dialog.get_by_label("Type", exact=True).input_value() == "Order"
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")


@pytest.mark.parametrize(
    ("button", "title", "action", "fields", "ends"),
    [
        ("Cancel", "Cancel this run?", "Cancel the run", {"graceful": True}, "CANCELLED"),
        ("Cancel", "Cancel this run?", "Cancel the run", {"graceful": False}, "CANCELLED"),
        ("Terminate", "Terminate this run?", "Terminate the run", {}, "TERMINATED"),
    ],
)
def test_a_run_is_ended(
    visit: Visit,
    site: Site,
    button: str,
    title: str,
    action: str,
    fields: dict[str, bool],
    ends: str,
) -> None:
    workflow_id = f"end-{button}-{fields.get('graceful', '')}"
    site.start(workflow_id, "Waiting")
    site.wait_for_step(workflow_id, "approved")
    user = visit("user")
    user.open(f"#/run/{workflow_id}/")
    user.press_button(button)
    user.fill(title, action, reason="no longer needed", **fields)
    status(user, ends)
    user.sees("no longer needed")
    assert site.describe(workflow_id)["status"] == ends


def test_two_people_act_on_one_run(visit: Visit, site: Site) -> None:
    site.start("both", "Waiting")
    site.wait_for_step("both", "approved")
    first, second = visit("user"), visit("root", node="n2")
    for each in (first, second):
        each.open("#/run/both/")
        status(each, "RUNNING", "WAITING")
    # Both have decided what to do before either does it.
    first.press_button("Terminate")
    first.dialog("Terminate this run?").get_by_label("Reason").fill("mine")
    second.press_button("Pause")
    second.dialog("Pause this run?").get_by_label("Reason").fill("theirs")
    first.fill("Terminate this run?", "Terminate the run")
    first.told("The run is terminated.")

    dialog = second.dialog("Pause this run?")
    dialog.get_by_role("button", name="Pause the run").click()
    told = dialog.get_by_role("alert")
    told.get_by_text("the run has ended").wait_for()
    # What it is now, why, and who did it.
    assert "TERMINATED" in told.inner_text()
    assert "mine" in told.inner_text()
    assert "TerminateWorkflow" in told.inner_text()
    dialog.get_by_role("button", name="Close").click()
    status(second, "TERMINATED")
    assert "Pause" not in second.page.locator("#view").inner_text()
    assert (site.describe("both")["status"], site.describe("both")["error"]) == (
        "TERMINATED",
        "mine",
    )


def test_two_people_pause_one_run(visit: Visit, site: Site) -> None:
    site.start("paused", "Waiting")
    site.wait_for_step("paused", "approved")
    first, second = visit("user"), visit("user", node="n3")
    for each in (first, second):
        each.open("#/run/paused/")
        each.press_button("Pause")
    first.fill("Pause this run?", "Pause the run", reason="one")
    dialog = second.dialog("Pause this run?")
    dialog.get_by_label("Reason").fill("two")
    dialog.get_by_role("button", name="Pause the run").click()
    dialog.get_by_role("alert").get_by_text("the run has changed").wait_for()
    dialog.get_by_role("button", name="Close").click()
    second.sees("one")
    # Who deletes it while another looks leaves them with what they saw.
    second.press_button("Unpause")
    second.fill("Let this run go on?", "Unpause the run")
    site.call("POST", "/api/workflows/paused/signal", {"name": "approved", "payload": "go"})
    status(first, "COMPLETED")
    for each in (first, second):
        each.expect("404")
    site.call("DELETE", "/api/workflows/paused")
    first.sees("has been deleted meanwhile")


def test_leadership_is_transferred(visit: Visit, site: Site) -> None:
    admin = visit()
    admin.open()
    before = site.nodes.leader()
    admin.sees(f"{before} leads")
    to = next(each for each in ("n1", "n2", "n3") if each != before)
    at = ("n1", "n2", "n3").index(to)
    heads = admin.page.get_by_role("region", name="Nodes").get_by_role("columnheader")
    assert to in heads.nth(at).inner_text()
    cells = admin.page.locator("tfoot td")
    cells.nth(at).get_by_role("button", name="Make leader").click()
    admin.fill("Transfer leadership?", "Transfer")
    admin.told(f"{to} leads.")
    admin.sees(f"{to} leads")
    newest = admin.page.get_by_role("region", name="Elections").locator("tbody tr").first
    admin.until(
        "the election says why",
        lambda: to in newest.inner_text() and "transfer" in newest.inner_text().lower(),
    )


def test_a_node_takes_a_snapshot(visit: Visit) -> None:
    admin = visit()
    admin.open()
    admin.press_button("Snapshot")
    admin.fill("Snapshot n1 now?", "Snapshot")
    admin.told("n1 has a snapshot at")


def test_a_node_is_added_and_removed(visit: Visit, site: Site) -> None:
    admin = visit()
    admin.open()
    admin.press_button("Add a node")
    fourth = site.nodes["n4"]
    admin.fill("Add a node", "Add", id="n4", raft=fourth.raft)
    shown = admin.dialog("n4 belongs to the cluster")
    line = shown.locator("pre").inner_text()
    assert line.startswith(f"raftflow serve --node-id n4 --raft-addr {fourth.raft}")
    shown.get_by_role("button", name="Close").click()
    heads = admin.page.get_by_role("region", name="Nodes").get_by_role("columnheader")
    admin.until("its thread is there", lambda: heads.count() == 4)
    assert "n4" in heads.nth(3).inner_text()
    admin.page.locator("tfoot td").nth(3).get_by_role("button", name="Remove").click()
    admin.fill("Remove n4 from the cluster?", "Remove n4")
    admin.told("n4 was removed.")
    wait_for("it is no member", lambda: "n4" not in site.nodes.members())


def test_namespaces(visit: Visit, site: Site) -> None:
    admin = visit()
    admin.open("#/namespaces")
    admin.press_button("Create a namespace")
    admin.fill("Create a namespace", "Create", name="shop")
    row = admin.page.get_by_role("region", name="Namespaces").locator("tr", has_text="shop")
    row.get_by_role("button", name="Retention").click()
    dialog = admin.dialog(re.compile("shop"))
    dialog.get_by_label("Hours").fill("1.5")
    dialog.get_by_role("button", name="Change").click()
    row.get_by_text("1 h 30 min").wait_for()
    row.get_by_role("button", name="Quota").click()
    dialog = admin.dialog(re.compile("shop"))
    dialog.get_by_label("Open runs at most").fill("2")
    dialog.get_by_role("button", name="Change").click()
    row.get_by_text("0 of 2").wait_for()
    (shop,) = [
        each for each in site.call("GET", "/api/namespaces")["namespaces"] if each["name"] == "shop"
    ]
    assert (shop["retention_ms"], shop["max_open_runs"]) == (5_400_000, 2)
    # Its runs are a list of their own.
    row.get_by_role("link", name="shop").click()
    admin.sees("Nothing has been started yet.")


def test_a_token_is_minted_and_revoked(visit: Visit) -> None:
    admin = visit()
    admin.open("#/tokens")
    admin.press_button("Mint a token")
    admin.fill("Mint a token", "Mint", name="clerk", role="user", sees_payloads=True)
    shown = admin.dialog("Token clerk")
    token = shown.locator("pre").inner_text()
    assert token.startswith("rf_")
    shown.get_by_role("button", name="Close").click()
    row = admin.page.get_by_role("region", name="Tokens").locator("tr", has_text="clerk").first
    row.wait_for()
    assert token not in admin.page.content()

    clerk = visit("")
    clerk.open("#/runs")
    clerk.log_in(token)
    assert clerk.page.get_by_role("button", name="Log out").inner_text() == "Log out (user)"

    row.get_by_role("button", name="Revoke").click()
    admin.fill("Revoke clerk?", "Revoke")
    admin.told("Revoked")
    # Whoever is logged in with it is asked for another one, where they are.
    clerk.log_in(TOKENS["viewer"])
    assert clerk.page.url.endswith("#/runs")


def test_the_audit_log_tells_and_is_exported(visit: Visit, site: Site, tmp_path: Path) -> None:
    site.call("POST", "/api/namespaces", {"name": "audited", "retention_ms": 0})
    admin = visit()
    admin.open("#/audit")
    admin.page.get_by_label("Target").fill("audited")
    rows = admin.page.get_by_role("region", name="Audit log").locator("tbody tr")
    admin.until("one entry", lambda: rows.count() == 1)
    for text in ("file:root", "CreateNamespace", "OK"):
        assert text in rows.first.inner_text()
    with admin.page.expect_download() as saving:
        admin.press_button("Export")
    target = tmp_path / "audit.jsonl"
    saving.value.save_as(target)
    (entry,) = [json.loads(line) for line in target.read_text().splitlines()]
    assert (entry["call"], entry["target"]) == ("CreateNamespace", "audited")


def test_why_leads_to_where_its_step_is_taken(visit: Visit, site: Site) -> None:
    site.start("led-1", "Delivery", input="led-1")
    site.wait("led-1-1", "WAITING")
    user = visit("user")
    user.open("#/run/led-1/")
    why = user.page.get_by_role("region", name="Why?")
    why.get_by_role("link", name=re.compile("^Go to led-1-")).click()
    user.page.get_by_role("heading", name=re.compile("^led-1-")).wait_for()
    why.get_by_role("button", name="Send the signal").click()
    dialog = user.dialog("Send a signal")
    assert "led-1-" in dialog.inner_text(), "what it is done to is said"
    assert dialog.get_by_label("Name").input_value() == "delivered"
    dialog.get_by_role("button", name="Send").click()
    dialog.wait_for(state="detached")
    user.sees("COMPLETED")


def test_a_dialog_goes_with_its_view(visit: Visit, site: Site) -> None:
    site.start("gone-1", "Waiting")
    user = visit("user")
    user.open("#/run/gone-1/")
    user.press_button("Terminate")
    dialog = user.dialog("Terminate this run?")
    user.open("#/runs")
    dialog.wait_for(state="detached")
    user.page.get_by_role("heading", name="Runs").wait_for()
    assert site.describe("gone-1")["status"] == "WAITING"


def test_why_a_run_is_not_there(visit: Visit) -> None:
    user = visit("user")
    user.open("#/runs")
    user.page.get_by_label("Search id or type").fill("nobody-1")
    user.page.get_by_role("button", name="why? no run nobody-1").click()
    dialog = user.dialog("Why? no run nobody-1")
    dialog.get_by_text("no_such_run").wait_for()
