"""Programs beside Python that some tests need."""

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest


def need(tool: str) -> str:
    """Its path. Who has Python alone may run the tests; CI has everything and skips nothing."""
    path = shutil.which(tool, path=Path(sys.executable).parent) or shutil.which(tool)
    if path:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"CI needs {tool}; .ci/run installs it")
    pytest.skip(f"needs {tool}")


def need_module(name: str) -> Any:
    """The same for a library that `make tools` installs."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs {name}; `make tools` installs it")
        pytest.skip(f"needs {name} (make tools)", allow_module_level=True)
