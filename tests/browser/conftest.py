"""The site that the people of a module visit, and their browser."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from browsing import Visit, Visitor, chromium, visitor
from playwright.sync_api import Browser
from site_nodes import TOKENS, Site, site_in

VISITORS = pytest.StashKey[list[Visitor]]()
FAILED = pytest.StashKey[bool]()


# Of a module: while Playwright is open nothing asynchronous runs in this process, and other
# folders' tests do.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed tells what was on the screens."""
    report = yield
    if report.failed and call.when == "call":
        item.stash[FAILED] = True
        for each in item.stash.get(VISITORS, []):
            report.sections.append(("On the screen", each.last_words()))
    return report


@pytest.fixture
def visit(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Lets people in; once they have gone, no browser may have complained of anything that the test
    did not expect."""
    here: list[Visitor] = []
    request.node.stash[VISITORS] = here
    with ExitStack() as people:

        def enter(role: str = "root", *, node: str = "n1", **how: Any) -> Visitor:
            token = TOKENS[role] if role else ""
            here.append(
                people.enter_context(visitor(browser, site.base_of(node), token=token, **how))
            )
            return here[-1]

        yield enter
        if FAILED not in request.node.stash:
            assert [each.unexpected() for each in here] == [[] for _ in here]
