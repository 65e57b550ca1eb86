"""A worker process for clusters in upgrade: it runs with the SDK of any release.

usage: upgrade_worker.py CALLS_FILE ADDRESS...
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from raftflow_sdk import Worker

calls = Path(sys.argv[1])
worker = Worker(addresses=sys.argv[2:], activity_slots=8, workflow_slots=4)
lock = threading.Lock()


def note(line: str) -> None:
    with lock, calls.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


@worker.workflow("Order")
def order(ctx: Any) -> str:
    kept = ctx.activity("keep", ctx.input)  # one attempt, as all of them
    ctx.sleep("settle", 0.1)
    answer = ctx.wait_for_signal("gate", "approved")
    return str(ctx.activity("send", f"{kept} {answer}"))


@worker.activity("keep")
def keep(value: str, info: Any) -> str:
    note(f"keep {info.workflow_id}")
    return f"kept {value}"


@worker.activity("send")
def send(value: str, info: Any) -> str:
    note(f"send {info.workflow_id}")
    return f"sent {value}"


worker.run()
