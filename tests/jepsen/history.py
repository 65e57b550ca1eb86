"""What clients, workers and the nemesis did, one JSON object a line, as it happened.

A call is two operations of one process: `invoke`, then `ok`, `fail` or `info`. One that never ended
counts as `info`. Checkers see nothing but this, so that a stored history can be judged again.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Op:
    """`process` is `<workload>/<client>`, or `nemesis`; `time_ns` is of this machine's monotonic
    clock; `error` says why a call failed, by the stable reason where there is one."""

    process: str
    f: str
    type: str
    key: str = ""
    value: Any = None
    time_ns: int = 0
    node: str = ""
    api: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation with its end. `arguments` are the invocation's value, `result` the end's.
    An `info` may still happen, so its end is never."""

    process: str
    f: str
    key: str
    arguments: Any
    kind: str
    result: Any
    start_ns: int
    end_ns: float
    node: str = ""
    api: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.kind == OK


class History:
    """Appends operations to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)

    def record(self, op: Op) -> Op:
        """Time is taken here unless the operation names one."""
        with self._lock:
            if not op.time_ns:
                op = replace(op, time_ns=time.monotonic_ns())
            self._file.write(json.dumps(_short(op), separators=(",", ":")) + "\n")
        return op

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(path: Path) -> list[Op]:
    """A stored history. A last line cut short by a crash is left out."""
    ops = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            ops.append(Op(**json.loads(line)))
        except ValueError:
            if number != len(lines):
                raise ValueError(f"{path}:{number}: not an operation: {line[:80]}") from None
    return ops


def calls(ops: Iterable[Op]) -> list[Call]:
    """Every call, in order of invocation. A process has one call open at a time."""
    found: list[Call] = []
    open_ops: dict[str, Op] = {}
    for op in ops:
        if op.type == INVOKE:
            if op.process in open_ops:
                found.append(_call(open_ops.pop(op.process), None))
            open_ops[op.process] = op
        elif op.process in open_ops:
            found.append(_call(open_ops.pop(op.process), op))
        else:
            raise ValueError(f"{op.process} ended what it never began: {op}")
    found += [_call(op, None) for op in open_ops.values()]
    return sorted(found, key=lambda call: call.start_ns)


def of_workload(ops: Iterable[Op], name: str) -> list[Op]:
    return [op for op in ops if op.process.startswith(f"{name}/")]


def named(found: Sequence[Call], *names: str) -> list[Call]:
    return [call for call in found if call.f in names]


def _call(begun: Op, ended: Op | None) -> Call:
    known = ended is not None and ended.type != INFO
    return Call(
        process=begun.process,
        f=begun.f,
        key=(ended.key if ended is not None else "") or begun.key,
        arguments=begun.value,
        kind=INFO if ended is None else ended.type,
        result=None if ended is None else ended.value,
        start_ns=begun.time_ns,
        end_ns=ended.time_ns if ended is not None and known else NEVER,
        node=begun.node,
        api=begun.api,
        error="" if ended is None else ended.error,
    )


def _short(op: Op) -> dict[str, Any]:
    """Without what says nothing."""
    shown = {field.name: getattr(op, field.name) for field in fields(op)}
    return {name: value for name, value in shown.items() if value is not None and value != ""}
