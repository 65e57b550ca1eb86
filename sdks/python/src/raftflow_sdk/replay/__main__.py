"""python -m raftflow_sdk.replay MODULE:NAME FILE...

Replays exported histories with today's workflow code. NAME is a Worker, a dict from workflow types
to functions, or one workflow function for all files. Exits 1 when the code differs from a history,
2 when it cannot tell.
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
from raftflow_sdk.replay.replayer import Registered, Replayer

DECODES: tuple[Decode, ...] = ("text", "json", "bytes")


Code = Registered | Mapping[str, Workflow] | Workflow


def load(text: str) -> Code:
    """What `module:name` names, as seen from the current directory."""
    module, colon, name = text.partition(":")
    if not colon:
        raise RaftflowError(f"workflow code is named MODULE:NAME, unlike {text!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Code = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as err:
        raise RaftflowError(f"{text}: {err}") from err
    if isinstance(found, Mapping) or hasattr(found, "workflows") or callable(found):
        return found
    raise RaftflowError(f"{text} is no Worker, no dict of workflows and no workflow function")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m raftflow_sdk.replay",
        description="Check workflow code against exported histories.",
    )
    parser.add_argument("code", metavar="MODULE:NAME", help="a Worker, a dict or a workflow")
    parser.add_argument("files", metavar="FILE", nargs="+", help="JSON or binary .history")
    parser.add_argument("--decode", choices=DECODES, help="instead of what is registered")
    given = parser.parse_args(arguments)
    try:
        code = load(given.code)
    except RaftflowError as err:
        print(err, file=sys.stderr)
        return 2
    return max(_check(code, given.decode, file) for file in given.files)


def _check(code: Code, decode: Decode | None, file: str) -> int:
    try:
        if callable(code):
            code = {read_history(file).events[0]["workflow_type"]: code}
        done = Replayer(code, decode=decode).check(file)
    except ReplayError as err:
        print(f"DIFFERS {file}: {err}")
        return 1
    except (LookupError, OSError, ValueError, RaftflowError) as err:
        print(f"{file}: {err}", file=sys.stderr)
        return 2
    print(f"ok {file}: {done.workflow_type} {done.workflow_id}, {done.decisions} decisions")
    if done.warning:
        print(f"warning {file}: {done.warning}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
