"""Decisions made again by another interpreter, which hashes text differently.

Code that depends on the order of a set, on what a module remembers, or on the process in any other
way decides differently there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from raftflow_sdk.replay import decide

# Two elements of a set stand in either order: several seeds find it sooner.
_SEEDS = ("1", "2")
_PATIENCE_S = 60
_FRESH = "RAFTFLOW_FRESH_PROCESS"

Json = dict[str, Any]


def decide_afresh(code: Any, decode: str, tasks: Sequence[Json]) -> Iterable[list[Json]]:
    """The answers to the tasks, once for each of several interpreters. None for code that another
    process cannot find: functions within functions or of a script, and what is no function."""
    qualname = getattr(code, "__qualname__", "<unknown>")
    if "<" in qualname or not hasattr(code, "__code__") or code.__module__ == "__main__":
        return ()
    if not tasks or _FRESH in os.environ:  # a module that tries this while it is loaded
        return ()
    job = {
        "module": code.__module__,
        "file": code.__code__.co_filename,
        "qualname": qualname,
        "decode": decode,
        "path": sys.path,
        "tasks": list(tasks),
    }
    with ThreadPoolExecutor(len(_SEEDS)) as pool:
        return list(pool.map(partial(_ask, json.dumps(job)), _SEEDS))


def _ask(job: str, seed: str) -> list[Json]:
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        input=job,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            _FRESH: "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )
    if done.returncode != 0:
        raise RuntimeError(
            "a fresh process cannot run the workflow (fresh_process=False leaves this out):\n"
            + done.stderr
        )
    answers: list[Json] = json.loads(done.stdout)
    return answers


def main() -> None:
    """In the other process: a job on stdin, the answers on stdout."""
    answers_to, sys.stdout = sys.stdout, sys.stderr  # what the code prints is no answer
    job = json.load(sys.stdin)
    sys.path[:] = job["path"]
    code = reduce(getattr, job["qualname"].split("."), _module(job["module"], job["file"]))
    answers = [decide(code, task, decode=job["decode"]) for task in job["tasks"]]
    json.dump(answers, answers_to)


def _module(name: str, file: str) -> Any:
    """By its name; by its file when the name means another module here, or none."""
    try:
        module: ModuleType | None = import_module(name)
    except ImportError:
        module = None
    if module is not None and Path(getattr(module, "__file__", None) or "") == Path(file):
        return module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
