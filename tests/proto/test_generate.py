import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_committed_stubs_are_what_the_proto_files_give() -> None:
    check = [sys.executable, "-m", "raftflow.proto.generate", "--check"]
    result = subprocess.run(check, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
