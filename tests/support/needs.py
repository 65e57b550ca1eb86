"""Programs beside Python that some tests need."""

import os
import shutil
import sys
from pathlib import Path

import pytest


def need(tool: str) -> str:
    """Its path. Who has Python alone may run the tests; CI has everything and skips nothing."""
    path = shutil.which(tool, path=Path(sys.executable).parent) or shutil.which(tool)
    if path:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"CI needs {tool}; .ci/run installs it")
    pytest.skip(f"needs {tool}")
