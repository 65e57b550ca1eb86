"""The page keeps to a strict content security policy and talks to nobody but the cluster."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import need

from raftflow.dashboard import static_dir

FILES = sorted(static_dir().iterdir())
MODULES = [path for path in FILES if path.suffix == ".js"]
PAGE = (static_dir() / "index.html").read_text("utf-8")


def test_the_files_are_packaged_flat() -> None:
    assert all(path.is_file() for path in FILES)
    assert {path.suffix for path in FILES} == {".html", ".js", ".css", ".svg"}


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_modules_parse(module: Path, tmp_path: Path) -> None:
    node = need("node")
    copy = tmp_path / f"{module.stem}.mjs"
    shutil.copy(module, copy)
    done = subprocess.run([node, "--check", copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_request_leaves_the_cluster(path: Path) -> None:
    text = path.read_text("utf-8").replace('"http://www.w3.org/2000/svg"', "")  # a name
    assert not re.search(r"https?://|//cdn|@import|url\(", text)


def test_no_inline_script_or_style() -> None:
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", PAGE)
    assert re.findall(r"<script[^>]*>([^<]*)", PAGE) == [""]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_text_is_never_parsed_as_html(module: Path) -> None:
    source = module.read_text("utf-8")
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert way not in source, f"{module.name} uses {way}: build nodes with dom.js h() instead"


def test_references_exist() -> None:
    for name in re.findall(r'(?:src|href)="([\w.]+)"', PAGE):
        assert (static_dir() / name).is_file()
    for module in MODULES:
        for name in re.findall(r'from "\./([^"]+)"', module.read_text("utf-8")):
            assert (static_dir() / name).is_file(), f"{module.name} imports {name}"
