"""One real node for all that is thrown at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz_node import FuzzNode, fuzz_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzNode]:
    with fuzz_node(tmp_path_factory.mktemp("fuzz")) as running:
        yield running
