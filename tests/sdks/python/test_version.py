"""The version that the SDK tells the server is that of its distribution."""

import re
from importlib.metadata import version
from pathlib import Path

from raftflow_sdk.version import SDK, VERSION

README = Path(__file__).parents[3] / "sdks" / "python" / "README.md"


def test_the_version_is_the_distribution_s() -> None:
    assert version("raftflow-sdk") == VERSION
    assert f"python/{VERSION}" == SDK


def test_the_examples_of_the_readme_are_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "README.md", "exec")
