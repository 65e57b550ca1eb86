"""How a bug is put in on purpose, and the list of all: see `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from raftflow.cluster.consensus import core as core_module


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    row: int
    target: Any
    attribute: str
    replacement: Any
    test: str = ""  # of another layer, which catches what no simulated run shows
    layer: str = "consensus"

    @contextmanager
    def applied(self) -> Iterator[None]:
        with patch.object(self.target, self.attribute, self.replacement):
            yield


MUTANTS: list[Mutant] = []


def mutant(row: int, target: Any, attribute: str, *, test: str = "") -> Callable[[Any], Any]:
    def register(replacement: Any) -> Any:
        name = getattr(replacement, "fget", replacement).__name__
        MUTANTS.append(Mutant(name, row, target, attribute, replacement, test))
        return replacement

    return register


def handler(row: int, kind: str) -> Callable[[Any], Any]:
    """Like `mutant`, for one entry of the table of message handlers."""

    def register(replacement: Any) -> Any:
        table = {**core_module._HANDLERS, kind: replacement}
        name = replacement.__name__
        MUTANTS.append(Mutant(name, row, core_module, "_HANDLERS", table))
        return replacement

    return register
