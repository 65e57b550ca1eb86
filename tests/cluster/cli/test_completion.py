"""`raftflow completion`, in a real shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftflow.cluster.cli.completion import SHELLS
from raftflow.cluster.cli.main import cli

RAFTFLOW = Path(sys.executable).with_name("raftflow")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str) -> None:
    said = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert f"_RAFTFLOW_COMPLETE={shell}_complete" in said
    document = json.loads(CliRunner().invoke(cli, ["completion", shell, "-o", "json"]).stdout)
    assert document == {"shell": shell, "script": said.removesuffix("\n")}


@pytest.mark.slow
@pytest.mark.skipif(not RAFTFLOW.exists(), reason="raftflow is not installed as a command")
def test_bash_completes_with_it() -> None:
    script = (
        f'PATH="{RAFTFLOW.parent}:$PATH"; eval "$(raftflow completion bash)"\n'
        "COMP_WORDS=(raftflow cluster st); COMP_CWORD=2; _raftflow_completion raftflow\n"
        'echo "${COMPREPLY[@]}"'
    )
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, timeout=60, check=True, env=os.environ
    )
    assert done.stdout.split() == ["status"]
