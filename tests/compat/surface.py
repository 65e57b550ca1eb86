"""What of the package was exercised: noted by a profile hook, so that the package stays as it is.

A name is `Context.activity`, and `Context.activity(retry)` for a parameter that was given a value
of its own. What has to be exercised is what the package itself calls public.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import workflowd

FILE = workflowd.__file__
# Public, though not in __all__: its documentation tells users to read payloads with it.
MORE = ("read_payload",)


def public() -> Iterator[str]:
    """Every public name, and every parameter that has a default."""
    for name in (*workflowd.__all__, *MORE):
        thing = getattr(workflowd, name)
        if inspect.isclass(thing):
            yield from _of_class(name, thing)
        elif inspect.isfunction(thing):
            yield from _of_function(name, thing)


def _of_class(name: str, kind: type[Any]) -> Iterator[str]:
    if not issubclass(kind, workflowd.Context | workflowd.Future):  # made by the package alone
        yield from _of_function(f"{name}.__init__", kind.__init__)
    for method, thing in vars(kind).items():
        if method.startswith("_"):
            continue
        if isinstance(thing, property):
            yield f"{name}.{method}"
        elif inspect.isfunction(thing):
            yield from _of_function(f"{name}.{method}", thing)


def _of_function(name: str, function: Any) -> Iterator[str]:
    if not inspect.isfunction(function):
        return  # inherited from Exception
    yield name
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            yield f"{name}({parameter.name})"


def _defaults() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in public():
        if name.endswith(")"):
            owner, _, parameter = name[:-1].partition("(")
            function = workflowd
            for part in owner.split("."):
                function = getattr(function, part)
            found.setdefault(owner, {})[parameter] = (
                inspect.signature(function).parameters[parameter].default
            )
    return found


class Exercised:
    """Notes calls into the package while it watches; every thread begun meanwhile is watched."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._defaults = _defaults()
        # A dataclass writes its own __init__, which is of no file.
        self._made = {workflowd.RetryPolicy.__init__.__code__: "RetryPolicy.__init__"}

    def __enter__(self) -> Exercised:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        name = self._name(frame.f_code)
        if not name:
            return
        self.names.add(name)
        for parameter, default in self._defaults.get(name, {}).items():
            if frame.f_locals.get(parameter, default) != default:
                self.names.add(f"{name}({parameter})")

    def _name(self, code: CodeType) -> str:
        if code.co_filename == FILE:
            return str(code.co_qualname)
        return self._made.get(code, "")
