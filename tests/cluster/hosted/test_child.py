"""The subprocess on its own: its lines, and that it never outlives the node."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
CHILD = (sys.executable, "-m", "raftflow.cluster.hosted.child")
BUILTIN = "raftflow.cluster.hosted.builtin"

# Starts a child and exits at once; the child keeps the pipes.
ORPHANER = """
import os, subprocess, sys
command, module = sys.argv[1:4], sys.argv[4]
subprocess.Popen([*command, str(os.getpid()), module])
"""


def test_it_says_what_it_hosts_and_ends_with_its_input() -> None:
    command = [*CHILD, str(os.getpid()), BUILTIN]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout) == {"types": ["OrderSaga"]}


def test_an_orphan_ends_by_itself() -> None:
    reader, writer = os.pipe()  # an input that never ends
    try:
        # Waits for the end of the output, which the orphan holds.
        subprocess.run(
            [sys.executable, "-c", ORPHANER, *CHILD, BUILTIN],
            stdin=reader,
            stdout=subprocess.PIPE,
            timeout=30,
            check=True,
        )
    finally:
        os.close(reader)
        os.close(writer)
