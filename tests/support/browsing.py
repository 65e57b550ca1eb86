"""People with a browser: the system's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from needs import need
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    sync_playwright,
)

# Longer than anything takes on an idle machine: a busy one is slow, not wrong.
PATIENCE_MS = 60_000
DESK = (1280, 900)
PHONE = (360, 740)
OPTIONS = (
    "--no-sandbox",  # tests run as root in CI
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
    # A scroll bar beside the content of a phone is none of a phone's.
    "--hide-scrollbars",
)
SERIOUS = {"serious", "critical"}


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Playwright brings browsers of its own only when told to: this is the system's."""
    path = need("chromium")
    # Its event loop counts as running while it is open: nothing asynchronous can run beside it.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visitor:
    """Somebody before a screen, and everything that their browser complained about."""

    context: BrowserContext
    page: Page
    base: str
    # What belongs to the test: a node that was killed answers nothing.
    expected: list[re.Pattern[str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.context.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if not request.url.startswith(("blob:", "data:")) and host != "127.0.0.1":
            self.complaints.append(f"asked a stranger: {request.url}")

    def expect(self, *patterns: str) -> None:
        self.expected += [re.compile(pattern) for pattern in patterns]

    def unexpected(self) -> list[str]:
        return [
            each
            for each in self.complaints
            if not any(pattern.search(each) for pattern in self.expected)
        ]

    def open(self, route: str = "#/cluster") -> None:
        """By the address; a view of the page that is open already needs no reload."""
        target = f"{self.base}/{route}"
        if self.page.url.startswith(f"{self.base}/"):
            self.page.evaluate("route => { location.hash = route }", route)
        else:
            self.page.goto(target)

    def log_in(self, token: str) -> None:
        """As people do."""
        # Who is not known yet is asked by a call that fails.
        self.expect(r"401 \(Unauthorized\)")
        dialog = self.dialog("This cluster asks for a token")
        dialog.get_by_label("Token").fill(token)
        dialog.get_by_role("button", name="Log in").click()
        dialog.wait_for(state="detached")
        self.page.get_by_role("button", name="Log out").wait_for()

    def dialog(self, title: str | re.Pattern[str]) -> Locator:
        found = (
            self.page.get_by_role("dialog", name=title) if title else self.page.locator("dialog")
        )
        found.wait_for()
        return found

    def fill(self, title: str, action: str, **fields: str | bool) -> None:
        """Fills in a dialog and sends it; it closes when that was accepted."""
        dialog = self.dialog(title)
        for name, value in fields.items():
            entry = dialog.locator(f"[name={name}]")
            if isinstance(value, bool):
                entry.set_checked(value)
            elif entry.evaluate("entry => entry.localName") == "select":
                entry.select_option(value)
            else:
                entry.fill(value)
        dialog.get_by_role("button", name=action, exact=True).click()
        dialog.wait_for(state="detached")

    def press_button(self, name: str) -> None:
        self.page.locator("#view").get_by_role("button", name=name, exact=True).first.click()

    def told(self, text: str) -> None:
        """What an action did, as the page tells it."""
        self.page.locator("#told").get_by_text(text).wait_for()

    def sees(self, text: str) -> Locator:
        """As it is written: a status is in capitals, and "terminated" stands in many a sentence."""
        found = self.page.locator("#view").get_by_text(re.compile(re.escape(text))).first
        found.wait_for()
        return found

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        """The page goes on living while somebody waits."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"within {PATIENCE_MS} ms: {what}")
            self.page.wait_for_timeout(25)

    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def last_words(self) -> str:
        """For whoever asks why a test failed."""
        with contextlib.suppress(Error):
            return f"{self.page.url}\n{self.complaints}\n{self.text()}"
        return f"the page is gone\n{self.complaints}"

    def faults_of_access(self) -> list[str]:
        """What axe finds serious or critical in the page as it is now."""
        self.page.evaluate(_axe())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['impact']} {each['id']}: {each['help']}: "
            + json.dumps([node["html"][:200] for node in each["nodes"][:3]])
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]

    def is_wider_than_the_screen(self) -> bool:
        return bool(
            self.page.evaluate(
                "document.scrollingElement.scrollWidth > document.documentElement.clientWidth"
            )
        )


# A fixture of this kind: visit("viewer"), visit("root", scheme="dark"), visit("") for nobody.
Visit = Callable[..., Visitor]


def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text()


@contextlib.contextmanager
def visitor(
    browser: Browser,
    base: str,
    *,
    token: str = "",
    size: tuple[int, int] = DESK,
    scheme: str = "light",
) -> Iterator[Visitor]:
    """In a profile of their own, logged in with the token before the page is opened."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-GB",
        accept_downloads=True,
    )
    try:
        if token:
            answer = context.request.post(f"{base}/api/session", data={"token": token})
            assert answer.ok, answer.text()
        yield Visitor(context, context.new_page(), base)
    finally:
        context.close()
