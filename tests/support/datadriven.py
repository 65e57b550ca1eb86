"""Behaviour as readable golden text.

A script is blocks of `directive`, input lines, `----`, expected output, separated by empty lines;
lines that begin with # are comments. `pytest --rewrite` writes what the code really says into the
scripts: read the diff before you keep it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Block:
    comments: tuple[str, ...]
    directive: str
    lines: tuple[str, ...]
    expected: str

    def render(self, output: str) -> str:
        return "\n".join((*self.comments, self.directive, *self.lines, "----", output))


def parse(text: str) -> list[Block]:
    blocks = []
    for chunk in text.strip().split("\n\n"):
        head, _, expected = chunk.partition("\n----\n")
        lines = head.split("\n")
        comments = tuple(line for line in lines if line.startswith("#"))
        directive, *rest = [line for line in lines if not line.startswith("#")]
        blocks.append(Block(comments, directive, tuple(rest), expected))
    return blocks


def run(path: Path, say: Callable[[str, tuple[str, ...]], str], *, rewrite: bool) -> None:
    """Give each block to `say`; its answer must be the expected one."""
    blocks = parse(path.read_text())
    outputs = [say(block.directive, block.lines) for block in blocks]
    if rewrite:
        path.write_text("\n\n".join(map(Block.render, blocks, outputs)) + "\n")
        return
    for block, output in zip(blocks, outputs, strict=True):
        assert output == block.expected, f"{path.name}: {block.directive}: see `pytest --rewrite`"
