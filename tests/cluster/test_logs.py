"""docs/log-events.md has every event that a node can log, with its levels and fields, and no other.

The other half of what is said there, that lines are JSON with `event`, `level`, `timestamp` and
`node`, is looked at in a real process by its output.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
ROW = re.compile(r"^\| `(\w+)` \| ([a-z, ]+) \| (.*?) \|", re.M)
# Every line has it.
EVERYWHERE = {"node"}

Events = dict[str, tuple[set[str], set[str]]]


def level_of(node: ast.expr) -> str | None:
    """`log.info` says info."""
    if not isinstance(node, ast.Attribute) or node.attr not in LEVELS:
        return None
    return LEVELS[node.attr] if ast.unparse(node.value) in ("log", "logger") else None


def calls(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, ast.Call, set[str]]]:
    """Those that log, in which function and at which level: also by a name that is one logger's
    method or another's, as in `event = log.info if quiet else log.warning`."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        function = cast(ast.FunctionDef, function)
        chosen: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
                levels = {level_of(node.value.body), level_of(node.value.orelse)}
                if None not in levels:
                    chosen[ast.unparse(node.targets[0])] = {each for each in levels if each}
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                level = level_of(node.func)
                levels_ = {level} if level else chosen.get(ast.unparse(node.func))
                if levels_:
                    yield function, node, levels_


def names(function: ast.FunctionDef, call: ast.Call, tree: ast.Module) -> set[str]:
    """The event: a literal, or a parameter, which its callers give as one."""
    name = call.args[0] if call.args else None
    if isinstance(name, ast.Constant):
        return {str(name.value)}
    assert isinstance(name, ast.Name)
    place = [each.arg for each in function.args.args if each.arg != "self"].index(name.id)
    given = [
        caller.args[place]
        for caller in ast.walk(tree)
        if isinstance(caller, ast.Call) and ast.unparse(caller.func) == f"self.{function.name}"
    ]
    assert given
    assert all(isinstance(each, ast.Constant) for each in given)
    return {str(ast.literal_eval(each)) for each in given}


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def keys(value: ast.expr, function: ast.FunctionDef, tree: ast.Module) -> set[str]:
    """The keys of what stands after `**`: of the dicts in it, in what the function assigns to that
    name, or in the function that it calls."""
    sources: list[ast.AST] = [value]
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func)
        sources = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    elif isinstance(value, ast.Name):
        sources = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and value.id in map(ast.unparse, targets(node))
        ]
    assert sources
    return {
        key.value
        for source in sources
        for node in ast.walk(source)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def logged() -> Events:
    events: Events = defaultdict(lambda: (set(), set()))
    for path in sorted((ROOT / "cluster").rglob("*.py")):
        tree = ast.parse(path.read_text())
        for function, call, levels in calls(tree):
            for name in names(function, call, tree):
                known_levels, fields = events[name]
                known_levels |= levels
                for keyword in call.keywords:
                    fields |= {keyword.arg} if keyword.arg else keys(keyword.value, function, tree)
                fields -= EVERYWHERE
    return dict(events)


def documented() -> Events:
    text = (ROOT / "docs" / "log-events.md").read_text()
    rows = ROW.findall(text)
    assert len({name for name, *_ in rows}) == len(rows), "an event stands twice"
    return {
        name: (set(levels.split(", ")), set(re.findall(r"`(\w+)`", fields)))
        for name, levels, fields in rows
    }


def test_the_page_has_every_event_with_its_levels_and_fields() -> None:
    code, page = logged(), documented()
    assert len(code) > 70, "the events of the code are found"
    assert sorted(page) == sorted(code), "docs/log-events.md: bring its rows in line with the code"
    for name in code:
        assert page[name] == code[name], f"docs/log-events.md: {name} has other levels or fields"


def said_by(program: str, style: str = "json") -> str:
    """What a process that logs as a node does says to standard error."""
    begin = (
        "from raftflow.cluster import logs\n"
        f"logs.configure(level='info', style='{style}', node_id='n7')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == ""
    return done.stderr


def test_a_line_is_an_object_with_the_fields_that_all_have() -> None:
    program = (
        "import structlog\n"
        "structlog.get_logger('x').debug('unheard')\n"
        "structlog.get_logger('x').warning('heard', reason='what it said')\n"
    )
    [line] = said_by(program).splitlines()
    said = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", said.pop("timestamp"))
    assert said == {"event": "heard", "level": "warning", "node": "n7", "reason": "what it said"}


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_comes_from_outside_cannot_steer_who_reads_a_log(style: str) -> None:
    hostile = "a\x1b[2J\u202eb\u200b\x9bc\nd"
    program = (
        "import structlog\n"
        f"log, text = structlog.get_logger('x'), {hostile!a}\n"
        "log.info('told', workflow_id=text)\n"
        "try: raise ValueError(text)\n"
        "except ValueError as error: log.error('failed', exc_info=error)\n"
    )
    said = said_by(program, style)
    assert set("\x1b\u202e\u200b\x9b").isdisjoint(said)
    first = said.splitlines()[0]
    if style == "json":
        assert json.loads(first)["workflow_id"] == hostile
    else:
        assert r"a\x1b[2J\u202eb\u200b\x9bc\nd" in first


def test_an_answer_that_goes_nowhere_is_no_news() -> None:
    """gRPC tells of it as here; what else goes wrong in a call is heard."""
    program = (
        "import logging; from grpc._cython import cygrpc\n"
        "problems = (cygrpc.ExecuteBatchError('Failed \"execute_batch\": (1, 2)'),"
        " cygrpc.InternalError('cannot bind'), ValueError('Failed \"execute_batch\"'))\n"
        "for problem in problems:\n"
        "    logging.getLogger('grpc._cython.cygrpc').error('raised', exc_info=problem)\n"
    )
    heard = re.findall(r"^(?:\w+\.)*(\w+Error):", said_by(program), re.M)
    assert heard == ["InternalError", "ValueError"]
