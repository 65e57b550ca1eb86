"""Looking again and again, and a key that ends it: on a terminal of the kernel's."""

from __future__ import annotations

import os
import pty
import sys
import time

from raftflow.cluster.cli.errors import Unreachable
from raftflow.cluster.cli.live import looking, unless_silent

PROGRAM = """
import sys
from raftflow.cluster.cli.live import looking, screen
with screen(whole=True) as show, looking(50, None) as looks:
    for number in looks:
        show([f"look {number}", {"id": "a\\x1b[31mb"}])
print("over")
"""


def test_so_many_looks_with_pauses() -> None:
    began = time.monotonic()
    with looking(20, 3) as looks:
        assert list(looks) == [0, 1, 2]
    assert time.monotonic() - began >= 0.04


def test_silence_is_an_answer() -> None:
    def ask() -> str:
        raise Unreachable("no node answered")

    assert unless_silent(ask) == "no node answered"
    assert unless_silent(lambda: 7) == 7


def test_q_ends_it_and_the_terminal_is_as_it_was() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
    said = b""
    try:
        while b"look 2" not in said:
            said += os.read(terminal, 4096)
        os.write(terminal, b"xq")
        while b"over" not in said:
            said += os.read(terminal, 4096)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    assert status == 0
    assert b"\x1b[?1049l" in said, "it left the screen of its own"
    assert rb"a\x1b[31mb" in said
    assert b"\x1b[31m" not in said
