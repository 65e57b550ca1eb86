"""The worker subprocess: loads modules, replays tasks, one JSON line in and one out.

It holds the code of users, so the node trusts nothing about it but its lines: never pickle. It
ends when its input does, or when it finds itself an orphan, looping or not.
"""

import importlib
import json
import os
import sys
import threading
import time
from typing import BinaryIO

from raftflow_sdk.replay import Workflow, decide

ORPHAN_CHECK_S = 2.0


def load(modules: list[str]) -> dict[str, Workflow]:
    """The workflow types of the modules' `WORKFLOWS`."""
    found: dict[str, Workflow] = {}
    for name in modules:
        registry = getattr(importlib.import_module(name), "WORKFLOWS", None)
        if not isinstance(registry, dict) or not registry:
            raise TypeError(f'module {name} has no WORKFLOWS = {{"Type": function}}')
        for workflow_type, code in registry.items():
            if not isinstance(workflow_type, str) or not callable(code):
                raise TypeError(f"module {name}: WORKFLOWS maps names to functions")
            if workflow_type in found:
                raise TypeError(f"module {name}: {workflow_type} is hosted twice")
            found[workflow_type] = code
    return found


def serve(workflows: dict[str, Workflow], source: BinaryIO, sink: BinaryIO) -> None:
    for line in source:
        task = json.loads(line)
        _say(sink, {"decision": decide(workflows[task["workflow_type"]], task)})


def _say(sink: BinaryIO, message: dict[str, object]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")
    sink.flush()


def main(parent: int, modules: list[str]) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # What workflow code prints or reads must not come between the lines of the protocol.
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        workflows = load(modules)
    except Exception as err:  # noqa: BLE001 - importing user code may raise anything
        _say(sink, {"error": f"{type(err).__name__}: {err}"})
        return
    _say(sink, {"types": sorted(workflows)})
    serve(workflows, source, sink)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
