"""Instances of dataclasses from their annotations: any (for hypothesis), or a fixed sample."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of dataclasses, and of (dataclass, field)."""

    types: frozenset[str] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()


_LEAVES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-1, 2**63 - 1) | st.integers(0, 3),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    bool: st.booleans(),
}
# 0 would stand for the usual priority.
_BY_NAME = {"priority": st.integers(1, 5)}


def any_of(cls: type[T], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Any instance of a dataclass; ``fixed`` fields come from strategies of the caller's."""
    hints = typing.get_type_hints(cls)
    fields = {
        f.name: _BY_NAME[f.name] if f.name in _BY_NAME else _any(hints[f.name])
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.name not in fixed
    }
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


def sample(cls: type[T], without: Vocabulary = Vocabulary()) -> T:
    """The same instance in every process and version: its values follow from the field names.
    ``without`` leaves out what a release did not have."""
    hints = typing.get_type_hints(cls)
    names = [
        f.name
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if (cls.__name__, f.name) not in without.fields
    ]
    return cls(**{name: _sample(hints[name], name, without) for name in names})


def _sample(hint: Any, name: str, without: Vocabulary) -> Any:
    plain = {int: 100 + len(name), str: name, bytes: name.encode(), bool: True}
    if hint in plain:
        return plain[hint]
    if isinstance(hint, types.UnionType):
        return _sample(typing.get_args(hint)[0], name, without)
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is not ...:
        return tuple(_sample(each, name, without) for each in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        member = typing.get_args(hint)[0]
        if isinstance(member, types.UnionType):
            members = [m for m in typing.get_args(member) if m.__name__ not in without.types]
            return tuple(_sample(each, name, without) for each in members)
        return (_sample(member, name, without),)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return hint(*hint._fields)
    return sample(hint, without)
