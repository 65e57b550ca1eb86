"""What comes from outside is text, wherever it is shown: markup, scripts, control and
right-to-left characters in whatever a stranger can name."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from browsing import Visit, Visitor
from site_nodes import Site

from raftflow_sdk import Worker

pytestmark = pytest.mark.cluster

MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=2</script>\'&amp;'
TURNED = "\u202eevil\u2066\u200b"
# Ids may hold no control character; what is said about work may.
ID = f"{MARKUP}{TURNED}"
TEXT = f"{ID}\x1b[31m\x00\x07\r\nsecond line"
# Characters that nobody sees, or that turn what stands beside them, are written out.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module", autouse=True)
def scene(site: Site) -> Worker:
    worker = site.work(worker_id=ID[:120])
    site.start(ID, "Failing", input=TEXT, search_attributes={"note": ID}, memo={"note": TEXT})
    site.wait(ID, "FAILED")
    site.start(f"waits {ID}", "Waiting", input=ID)
    site.wait_for_step(f"waits {ID}", ID)
    path = f"/api/workflows/{quote(f'waits {ID}', safe='')}"
    site.call("POST", f"{path}/signal", {"name": f"other {ID}", "payload": TEXT})
    site.call("POST", f"{path}/pause", {"reason": TEXT})
    site.call("POST", "/api/workflow-types", {"workflow_types": [ID], "worker_id": ID[:120]})
    site.start(f"typed {ID}", ID, task_queue=f"queue {ID}")
    site.call(
        "POST",
        "/api/tokens",
        {"name": ID, "role": "viewer", "namespaces": [], "sees_payloads": False},
    )
    return worker


def harmless(visitor: Visitor) -> None:
    page = visitor.page
    assert page.evaluate("window.broken") is None
    assert page.locator("img[src=x], #view script, dialog script").count() == 0
    shown = RAW.findall(visitor.text()) + RAW.findall(page.title())
    assert shown == [], f"{shown!r} is shown as it is"
    # Where text is read out or pops up, too.
    for name in ("title", "aria-label"):
        said = page.locator(f"[{name}]").evaluate_all(
            f"nodes => nodes.map(node => node.getAttribute('{name}')).join(' ')"
        )
        assert RAW.findall(said) == [], name


def run(name: str) -> str:
    return f"#/run/{quote(name, safe='')}/"


def test_in_the_list_of_runs(visit: Visit) -> None:
    visitor = visit()
    visitor.open("#/runs")
    rows = visitor.page.locator("table.runs tbody tr")
    visitor.until("all are listed", lambda: rows.count() == 3)
    assert visitor.text().count(MARKUP) >= 5  # ids, a type, an attribute
    assert "\\u202eevil\\u2066\\u200b" in visitor.text()
    harmless(visitor)
    # A link made of it leads to the run.
    rows.first.get_by_role("link").click()
    visitor.page.locator(".run-head").wait_for()
    visitor.page.get_by_role("heading", level=1).get_by_text(MARKUP).wait_for()
    harmless(visitor)


def test_in_the_filters_and_the_address(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/runs")
    visitor.page.get_by_label("Search id or type").fill(MARKUP)
    visitor.page.get_by_label("Attribute, as name=value").fill(f"note={ID}")
    visitor.page.get_by_label("Attribute, as name=value").press("Enter")
    visitor.page.get_by_role("group", name="Attributes").get_by_text(MARKUP).wait_for()
    harmless(visitor)
    visitor.expect("404", "400")
    visitor.open(f"#/run/{quote(TEXT, safe='')}/x?ns={quote(MARKUP, safe='')}")
    visitor.page.locator("#banner").wait_for()
    harmless(visitor)
    visitor.open(f"#/{quote(MARKUP, safe='')}")
    visitor.page.get_by_role("heading", name="Cluster").wait_for()
    harmless(visitor)


def test_in_a_run_that_failed(visit: Visit) -> None:
    visitor = visit()
    visitor.open(run(ID))
    visitor.sees("FAILED")
    visitor.page.locator(".steps summary").first.click()
    visitor.page.locator("details.history > summary").click()
    events = visitor.page.get_by_role("region", name="Events").locator("tbody details > summary")
    visitor.until("the events are listed", lambda: events.count() > 3)
    for at in range(events.count()):
        events.nth(at).click()
    why = visitor.page.get_by_role("region", name="Why?")
    why.get_by_text(re.compile("<img")).first.wait_for()
    assert "\\x1b[31m\\x00\\x07" in visitor.text()
    assert visitor.text().count("<script>window.broken=2</script>") > 5
    harmless(visitor)


def test_in_a_run_that_waits(visit: Visit) -> None:
    visitor = visit()
    visitor.open(run(f"waits {ID}"))
    signals = visitor.page.get_by_role("region", name="Signals")
    signals.get_by_text(f"other {MARKUP}").first.wait_for()
    visitor.sees("PAUSED")
    pending = visitor.page.get_by_role("region", name="Pending")
    pending.get_by_role("button").first.click()
    visitor.dialog(re.compile(r"^Why\? "))
    harmless(visitor)


def test_in_queues_and_workers(visit: Visit) -> None:
    visitor = visit("viewer")
    visitor.open("#/queues")
    visitor.page.get_by_role("region", name="Queues").get_by_text(MARKUP).first.wait_for()
    visitor.page.get_by_role("region", name="Workers").get_by_text("<img").first.wait_for()
    harmless(visitor)
    visitor.page.get_by_role("button", name=re.compile("^why")).first.click()
    visitor.dialog(re.compile(r"^Why\? "))
    harmless(visitor)


def test_in_the_views_of_an_admin(visit: Visit) -> None:
    visitor = visit()
    visitor.open("#/tokens")
    visitor.page.get_by_role("region", name="Tokens").get_by_text(MARKUP).first.wait_for()
    harmless(visitor)
    row = visitor.page.locator("tbody tr", has_text=MARKUP)
    row.get_by_role("button", name="Revoke").click()
    visitor.dialog(re.compile("^Revoke "))
    harmless(visitor)
    visitor.page.keyboard.press("Escape")
    visitor.open("#/audit")
    entries = visitor.page.get_by_role("region", name="Audit log")
    entries.get_by_text(MARKUP).first.wait_for()
    harmless(visitor)


def test_what_somebody_types_is_told_as_text(visit: Visit) -> None:
    visitor = visit()
    visitor.open(run(f"waits {ID}"))
    visitor.press_button("Signal")
    visitor.fill("Send a signal", "Send", name=f"typed {MARKUP}", payload=TEXT)
    visitor.told(f"The signal typed {MARKUP} is delivered.")
    visitor.page.get_by_role("region", name="Signals").get_by_text(f"typed {MARKUP}").wait_for()
    harmless(visitor)
    visitor.expect("400")
    visitor.press_button("Signal")
    dialog = visitor.dialog("Send a signal")
    dialog.get_by_label("Name").fill(f"{TURNED}\x07")
    dialog.get_by_role("button", name="Send").click()
    dialog.get_by_role("alert").wait_for()
    harmless(visitor)


def test_were_it_shown_as_markup_the_policy_would_hold(visit: Visit) -> None:
    """And whoever drives the browser hears of it: no other test of this folder is deaf."""
    visitor = visit("viewer")
    visitor.open()
    visitor.page.get_by_role("heading", name="Cluster").wait_for()
    visitor.page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", MARKUP)
    visitor.page.evaluate("fetch('http://stranger.invalid/').catch(() => {})")

    def heard() -> bool:
        refused = [each for each in visitor.complaints if "Content Security Policy" in each]
        return any("inline" in each for each in refused) and any(
            "stranger" in each for each in refused
        )

    visitor.until("both are refused", heard)
    assert visitor.page.evaluate("window.broken") is None
    visitor.expect("Content Security Policy", "stranger.invalid", "404")
