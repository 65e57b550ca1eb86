"""These tests bring their own clusters, and say nothing about the client's surface."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def exercised() -> None:
    """In the place of the hook that watches the client's calls in the tests beside these."""
