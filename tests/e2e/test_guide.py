"""The guide to the Python SDK, run as it stands.

Its blocks are two programs: those of the client run in order against a cluster, after those of the
worker were executed and it was started. What follows `#` after a `print` is printed.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import DevCluster

GUIDE = Path(__file__).parents[2] / "docs" / "python-sdk.md"
ADDRESSES = re.compile(r'\["http://127\.0\.0\.1:8233".*?\]')


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)


def expected(block: str) -> list[str]:
    return re.findall(r"print\(.*\)  # (.*)", block)


@pytest.mark.cluster
def test_the_guide_does_what_it_says(cluster: DevCluster) -> None:
    addresses = str([f"http://{cluster.http(node)}" for node in cluster.ids()])
    program = [ADDRESSES.sub(addresses, block) for block in blocks()]
    page: dict[str, Any] = {"__name__": "guide"}
    mine: dict[str, Any] = {"__name__": "client"}
    for block in program:
        if "client" not in block:
            exec(compile(block, str(GUIDE), "exec"), page)
    said: list[str] = []
    with page["worker"]:
        for block in program:
            if "client" in block:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(block, str(GUIDE), "exec"), mine)
                assert out.getvalue().splitlines() == expected(block), block
                said += expected(block)
    assert len(said) >= 10, "the guide shows what its examples print"
