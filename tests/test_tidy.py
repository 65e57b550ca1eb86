"""House rules as tests. Each failure says which rule and what to do about it."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("engine", "raftlog", "cluster", "dashboard", "testing", "sdks/python/src")
NOT_INSTALLED = ("sdks", "tests", "examples", "benchmarks")
MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70
# One file carries every override of PySyncObj, so that an upgrade is one review.
LONG_MODULES = {"cluster/consensus/core.py"}


def tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in suffixes and path.exists()]


def product_modules() -> Iterator[Path]:
    for path in tracked(".py"):
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith(PRODUCT) and "_pb2" not in path.name:
            yield path


def test_modules_are_short() -> None:
    for path in product_modules():
        relative = path.relative_to(ROOT).as_posix()
        lines = len(path.read_text().splitlines())
        assert lines <= MAX_MODULE_LINES or relative in LONG_MODULES, (
            f"{relative} has {lines} lines, the limit is {MAX_MODULE_LINES}: split it by subject"
        )


def test_functions_are_short() -> None:
    for path in product_modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= MAX_FUNCTION_LINES, (
                    f"{path.relative_to(ROOT)}: {node.name} has {length} lines, the limit is "
                    f"{MAX_FUNCTION_LINES}: name its parts"
                )


def test_every_product_module_says_what_it_is_for() -> None:
    for path in product_modules():
        assert ast.get_docstring(ast.parse(path.read_text())), (
            f"{path.relative_to(ROOT)} has no docstring: say in one sentence what it is for"
        )


def test_packages_are_those_of_the_tree() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    found = set()
    for path in tracked(".py"):
        relative = path.relative_to(ROOT)
        if path.name == "__init__.py" and relative.parts[0] not in NOT_INSTALLED:
            found.add(".".join(("raftflow", *relative.parent.parts)))
    assert listed == found, "pyproject.toml: bring the packages list in line with the tree"


@pytest.mark.parametrize("name", ["engine", "raftlog", "cluster", "proto", "dashboard", "testing"])
def test_a_package_refuses_its_second_name(name: str) -> None:
    text = (ROOT / name / "__init__.py").read_text()
    assert f'if __name__ != "raftflow.{name}"' in text, (
        f"{name}/__init__.py: refuse the second name, so that one module has one name"
    )


def test_the_engine_knows_no_floats() -> None:
    for path in tracked(".py"):
        if path.relative_to(ROOT).parts[0] != "engine":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_float = isinstance(node, ast.Constant) and isinstance(node.value, float)
            assert not is_float, f"{path.name}:{node.lineno}: the engine counts in integers"


def test_no_todo_is_left_behind() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    for path in tracked(".py", ".js", ".css", ".html", ".proto", ".md"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            assert not marker.search(line), f"{path.relative_to(ROOT)}:{number}: do it or drop it"


def test_links_in_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
    for path in tracked(".md"):
        for target, _ in link.findall(path.read_text()):
            if "://" in target or target.startswith("mailto:"):
                continue
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"
