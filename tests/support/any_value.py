"""Instances of dataclasses from their annotations: any (for hypothesis), or a fixed sample."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_LEAVES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-1, 2**63 - 1) | st.integers(0, 3),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    bool: st.booleans(),
}


def any_of(cls: type[T], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Any instance of a dataclass; ``fixed`` fields come from strategies of the caller's."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: _any(hints[f.name]) for f in dataclasses.fields(cls) if f.name not in fixed}  # type: ignore[arg-type]
    return st.builds(cls, **fields, **fixed)


def _any(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _LEAVES:
        return _LEAVES[hint]
    if isinstance(hint, types.UnionType):
        return st.one_of([_any(member) for member in typing.get_args(hint)])
    if hint is type(None):
        return st.none()
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is not ...:
        return st.tuples(*[_any(member) for member in typing.get_args(hint)])
    if typing.get_origin(hint) is tuple:
        return st.lists(_any(typing.get_args(hint)[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and hasattr(hint, "_fields"):  # a NamedTuple of strings
        return st.builds(hint, *[_LEAVES[str]] * len(hint._fields))
    return any_of(hint)


def sample(cls: type[T]) -> T:
    """The same instance in every process and version: its values follow from the field names."""
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return cls(**{f.name: _sample(hints[f.name], f.name) for f in fields})


def _sample(hint: Any, name: str) -> Any:
    plain = {int: 100 + len(name), str: name, bytes: name.encode(), bool: True}
    if hint in plain:
        return plain[hint]
    if isinstance(hint, types.UnionType):
        return _sample(typing.get_args(hint)[0], name)
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is not ...:
        return tuple(_sample(each, name) for each in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        member = typing.get_args(hint)[0]
        if isinstance(member, types.UnionType):
            return tuple(_sample(each, name) for each in typing.get_args(member))
        return (_sample(member, name),)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return hint(*hint._fields)
    return sample(hint)
