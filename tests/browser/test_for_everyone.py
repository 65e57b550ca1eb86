"""Who has no mouse, sees little, likes the dark or has a phone: each view."""

from __future__ import annotations

import re

import pytest
from browsing import PHONE, Visit, Visitor
from site_nodes import Site

pytestmark = pytest.mark.cluster

VIEWS = {
    "cluster": "#/cluster",
    "runs": "#/runs",
    "run": "#/run/eye-2/",
    "open run": "#/run/eye-3/",
    "queues": "#/queues",
    "namespaces": "#/namespaces",
    "tokens": "#/tokens",
    "audit": "#/audit",
}
# What is there once a view has its answer.
READY = {
    "cluster": ".chart-line",
    "runs": "table.runs tbody tr",
    "run": ".steps > li",
    "open run": "table.pending tbody tr",
    "queues": "tbody tr",
    "namespaces": "tbody tr",
    "tokens": "tbody tr",
    "audit": "tbody tr",
}


@pytest.fixture(scope="module", autouse=True)
def scene(site: Site) -> None:
    site.work()
    site.start("eye-1", "Order", input="eye-1", search_attributes={"region": "north"})
    site.start("eye-2", "Order", input="eye-2 declined")
    site.start("eye-3", "Pickup", input="eye-3")
    site.start("eye-4", "Meter", input="1")
    site.start("eye-5", "Order", task_queue="attic")
    for order in ("eye-1", "eye-2"):
        site.wait_for_step(order, "approved")
        site.call("POST", f"/api/workflows/{order}/signal", {"name": "approved", "payload": "yes"})
    site.wait("eye-1", "COMPLETED")
    site.wait("eye-2", "FAILED")
    site.call(
        "POST",
        "/api/tokens",
        {"name": "a token", "role": "viewer", "namespaces": [], "sees_payloads": False},
    )


def show(visitor: Visitor, view: str) -> None:
    visitor.open(VIEWS[view])
    visitor.page.locator(f"#view {READY[view]}").first.wait_for()


def open_all(visitor: Visitor) -> None:
    """What is folded is looked at, too."""
    visitor.page.locator("#view details").evaluate_all(
        "all => all.forEach(each => { each.open = true })"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(visit: Visit, scheme: str) -> None:
    visitor = visit(scheme=scheme)
    faults = {}
    for view in VIEWS:
        show(visitor, view)
        open_all(visitor)
        faults[view] = visitor.faults_of_access()
    visitor.page.get_by_role("button", name="Start workflow").click()
    visitor.dialog("Start a workflow")
    faults["start dialog"] = visitor.faults_of_access()
    visitor.page.keyboard.press("Escape")
    visitor.open("#/queues")
    visitor.page.get_by_role("button", name=re.compile("^why")).first.click()
    visitor.dialog(re.compile(r"^Why\? ")).locator(".chain > li").first.wait_for()
    faults["why dialog"] = visitor.faults_of_access()
    assert {view: found for view, found in faults.items() if found} == {}


def test_axe_finds_no_serious_fault_before_anybody_is_known(visit: Visit) -> None:
    visitor = visit("")
    visitor.expect("401")
    visitor.open()
    visitor.dialog("This cluster asks for a token")
    assert visitor.faults_of_access() == []


def test_a_phone_shows_each_view_without_scrolling_sideways(visit: Visit) -> None:
    visitor = visit(size=PHONE)
    wide = []
    for view in VIEWS:
        show(visitor, view)
        open_all(visitor)
        if visitor.is_wider_than_the_screen():
            wide.append(view)
    assert wide == []
    visitor.page.get_by_role("button", name="Start workflow").click()
    box = visitor.dialog("Start a workflow").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE[0]
    assert visitor.faults_of_access() == []


class Keys:
    """Somebody who has nothing but a keyboard."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.press = visitor.page.keyboard.press
        self.write = visitor.page.keyboard.type

    def focused(self) -> str:
        said: str = self.visitor.page.evaluate(
            """() => {
              const at = document.activeElement;
              const label = at.labels?.[0]?.textContent ?? "";
              return (at.getAttribute("aria-label") ?? label) || at.textContent.trim();
            }"""
        )
        return said

    def is_seen(self) -> bool:
        """Where the focus is shows: an outline, or another colour of the border."""
        return bool(
            self.visitor.page.evaluate(
                """() => {
                  const at = getComputedStyle(document.activeElement);
                  return at.outlineStyle !== "none" && parseFloat(at.outlineWidth) > 0;
                }"""
            )
        )

    def tab_to(self, name: str, *, most: int = 80, key: str = "Tab") -> None:
        passed = []
        for _ in range(most):
            self.press(key)
            passed.append(self.focused())
            if passed[-1].startswith(name):
                assert self.is_seen(), f"nothing shows that {name} has the focus"
                return
        raise AssertionError(f"no way to {name} by {key}; there were {passed}")


def test_a_run_is_started_found_and_ended_by_keys_alone(visit: Visit, site: Site) -> None:
    visitor = visit("user")
    keys = Keys(visitor)
    visitor.open()
    visitor.page.locator("#view .chart-line").first.wait_for()
    keys.tab_to("Skip to the content")
    keys.tab_to("Runs")
    keys.press("Enter")
    visitor.page.get_by_role("heading", name="Runs").wait_for()
    # Whoever follows a link goes on reading where it led; the shell stands before it.
    keys.tab_to("Start workflow", key="Shift+Tab")
    keys.press("Enter")
    visitor.dialog("Start a workflow")
    keys.write("Waiting")
    keys.press("Tab")
    keys.write("keys-1")
    keys.press("Enter")
    visitor.page.get_by_role("heading", name="keys-1").wait_for()
    visitor.sees("approved")

    keys.press("g")
    keys.press("r")
    visitor.page.get_by_role("heading", name="Runs").wait_for()
    keys.press("/")
    keys.write("eye")
    rows = visitor.page.locator("table.runs tbody tr")
    visitor.until("the others are found", lambda: "keys-1" not in visitor.text())
    keys.press("ControlOrMeta+a")
    keys.write("keys")
    visitor.until("it is found", lambda: rows.count() == 1)
    keys.tab_to("keys-1")
    keys.press("Enter")
    visitor.page.get_by_role("heading", name="keys-1").wait_for()

    keys.tab_to("Pause")
    # The page is built anew each second, and the focus stays.
    site.call("POST", "/api/workflows/keys-1/signal", {"name": "other", "payload": ""})
    visitor.page.get_by_role("region", name="Signals").get_by_text("other").wait_for()
    assert keys.focused() == "Pause"
    keys.tab_to("Terminate")
    keys.press("Enter")
    visitor.dialog("Terminate this run?")
    keys.write("by keys")
    keys.press("Enter")
    visitor.sees("TERMINATED")
    assert site.describe("keys-1")["error"] == "by keys"


def test_a_dialog_keeps_and_gives_back_the_focus(visit: Visit) -> None:
    visitor = visit()
    keys = Keys(visitor)
    visitor.open("#/namespaces")
    visitor.page.locator("#view tbody tr").first.wait_for()
    keys.tab_to("Create a namespace")
    keys.press("Enter")
    dialog = visitor.dialog("Create a namespace")
    for _ in range(8):
        keys.press("Tab")
        inside = "document.activeElement.closest('dialog') !== null"
        on_the_browser = "document.activeElement === document.body"
        assert visitor.page.evaluate(f"{inside} || {on_the_browser}")
    keys.press("Escape")
    dialog.wait_for(state="detached")
    assert keys.focused() == "Create a namespace"


def test_the_keys_are_told(visit: Visit) -> None:
    visitor = visit()
    visitor.open()
    visitor.page.get_by_role("heading", name="Cluster").wait_for()
    visitor.page.keyboard.press("?")
    shown = visitor.dialog("Keys")
    for label in ("Cluster", "Runs", "Queues", "Audit", "Search"):
        shown.get_by_text(label).wait_for()
    visitor.page.keyboard.press("Escape")
    shown.wait_for(state="detached")
    for letter, heading in (("q", "Queues"), ("n", "Namespaces"), ("t", "Tokens"), ("a", "Audit")):
        visitor.page.keyboard.press("g")
        visitor.page.keyboard.press(letter)
        visitor.page.get_by_role("heading", name=heading, exact=True).wait_for()


def test_a_theme_is_chosen_and_remembered(visit: Visit) -> None:
    visitor = visit("viewer", scheme="dark")
    visitor.open()
    visitor.page.get_by_role("heading", name="Cluster").wait_for()

    def background() -> str:
        return str(visitor.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = background()
    theme = visitor.page.get_by_role("button", name=re.compile("^Theme"))
    theme.click()
    assert theme.get_attribute("aria-label") == "Theme: light"
    light = background()
    assert light != dark
    visitor.page.reload()
    visitor.page.get_by_role("heading", name="Cluster").wait_for()
    assert background() == light
