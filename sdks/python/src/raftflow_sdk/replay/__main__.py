"""python -m raftflow_sdk.replay MODULE:NAME FILE...

Replays exported histories with today's workflow code. NAME is a workflow function, or a dict from
workflow types to functions. Exits 1 when the code differs from a history, 2 when it cannot tell.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence

from raftflow_sdk.errors import RaftflowError, ReplayError
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.decision import Workflow
from raftflow_sdk.replay.history_file import read_history
from raftflow_sdk.replay.replayer import Replayer

DECODES: tuple[Decode, ...] = ("text", "json", "bytes")


def load(text: str) -> Mapping[str, Workflow] | Workflow:
    """What `module:name` names, as seen from the current directory."""
    module, colon, name = text.partition(":")
    if not colon:
        raise RaftflowError(f"workflow code is named MODULE:NAME, unlike {text!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Mapping[str, Workflow] | Workflow = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as err:
        raise RaftflowError(f"{text}: {err}") from err
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m raftflow_sdk.replay",
        description="Check workflow code against exported histories.",
    )
    parser.add_argument("code", metavar="MODULE:NAME", help="a workflow, or a dict of them by type")
    parser.add_argument("files", metavar="FILE", nargs="+", help="JSON or binary .history")
    parser.add_argument("--decode", choices=DECODES, default="text", help="how the input is read")
    given = parser.parse_args(arguments)
    try:
        return max(_check(load(given.code), given.decode, file) for file in given.files)
    except RaftflowError as err:
        print(err, file=sys.stderr)
        return 2


def _check(code: Mapping[str, Workflow] | Workflow, decode: Decode, file: str) -> int:
    try:
        if isinstance(code, Mapping):
            workflows = code
        else:
            workflows = {read_history(file)[0]["workflow_type"]: code}
        done = Replayer(workflows, decode=decode).check(file)
    except ReplayError as err:
        print(f"DIFFERS {file}: {err}")
        return 1
    except (LookupError, OSError, ValueError) as err:
        raise RaftflowError(f"{file}: {err}") from err
    print(f"ok {file}: {done.workflow_type} {done.workflow_id}, {done.decisions} decisions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
