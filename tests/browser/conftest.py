"""The site that the people of a module visit, and their browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from browsing import Visit, Visitor, chromium, visitor
from playwright.sync_api import Browser
from site_nodes import TOKENS, Site, site_in


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)


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


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Visit]:
    with ExitStack() as people:

        def enter(role: str = "root", *, node: str = "n1", **how: Any) -> Visitor:
            token = TOKENS[role] if role else ""
            return people.enter_context(visitor(browser, site.base_of(node), token=token, **how))

        yield enter
