"""How a dataclass and a message correspond: by field names, listed once per pair at import.

Plain fields (numbers, text, bytes, flags) are copied by name; the others name a `Special` that
knows both ways. Fields left at their protobuf default are not written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import IntEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)


class UnknownValue(ValueError):
    """A message says something that this version has no word for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Special:
    """``put(message, value)`` writes a field, ``take(message)`` reads it."""

    put: Callable[[Any, Any], None]
    take: Callable[[Any], Any]


class Shape(Generic[T]):
    """The two-way map of one dataclass and the message of the same field names."""

    __slots__ = ("_cls", "_plain", "_read", "_setters", "_specials")

    def __init__(self, cls: type[T], message: type[Any], **specials: Special) -> None:
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        known = set(message.DESCRIPTOR.fields_by_name)
        assert known.issuperset(names), (cls, set(names) - known)
        self._cls = cls
        self._plain = tuple(name for name in names if name not in specials)
        self._specials = tuple(specials.items())
        # Calling the class costs twice as much as filling its slots.
        assert not hasattr(cls, "__post_init__"), cls
        self._setters = tuple(
            [cls.__dict__[name].__set__ for name in (*self._plain, *specials)],
        )
        self._read = _reader(self._plain)

    def put(self, message: Any, value: T) -> None:
        """Write ``value`` into ``message``, which is fresh."""
        message.SetInParent()  # present even when every field is at its default
        for name in self._plain:
            item = getattr(value, name)
            if item:
                setattr(message, name, item)
        for name, special in self._specials:
            special.put(message, getattr(value, name))

    def take(self, message: Any) -> T:
        values = self._read(message)
        if self._specials:
            values += tuple([special.take(message) for _, special in self._specials])
        made = object.__new__(self._cls)
        for put, item in zip(self._setters, values, strict=True):
            put(made, item)
        return made


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda message: ()
    get = attrgetter(*names)
    if len(names) == 1:  # attrgetter gives the bare value
        return lambda message: (get(message),)
    return get


class OneOf(Generic[T]):
    """A oneof whose fields stand for the members of a union: field name → shape."""

    __slots__ = ("_by_type", "_name", "_shapes")

    def __init__(self, name: str, shapes: Mapping[str, tuple[type[T], Shape[Any]]]) -> None:
        self._name = name
        self._shapes = {field: shape for field, (_, shape) in shapes.items()}
        self._by_type = {cls: (field, shape) for field, (cls, shape) in shapes.items()}

    @property
    def members(self) -> frozenset[type[T]]:
        return frozenset(self._by_type)

    def put(self, message: Any, value: T) -> None:
        field, shape = self._by_type[type(value)]
        shape.put(getattr(message, field), value)

    def take(self, message: Any) -> T:
        field = message.WhichOneof(self._name)
        if field is None:
            raise UnknownValue(
                f"{type(message).__name__} has no {self._name} that this version knows"
            )
        value: T = self._shapes[field].take(getattr(message, field))
        return value


def member(cls: type[T], message: type[Any], **specials: Special) -> tuple[type[T], Shape[T]]:
    """One line of a `OneOf` table."""
    return cls, Shape(cls, message, **specials)


def enum(field: str, cls: type[E]) -> Special:
    """An IntEnum kept as a number."""
    by_number = {int(item): item for item in cls}

    def take(message: Any) -> E:
        number = getattr(message, field)
        try:
            return by_number[number]
        except KeyError:
            raise UnknownValue(f"{field} {number} is no {cls.__name__}") from None

    return Special(lambda message, value: setattr(message, field, int(value)), take)


def usually(field: str, default: int) -> Special:
    """A number that is not written at its usual value, which 0 stands for."""

    def put(message: Any, value: int) -> None:
        if value != default:
            setattr(message, field, value)

    return Special(put, lambda message: getattr(message, field) or default)


def pairs(field: str) -> Special:
    """A tuple of (name, value)."""

    def put(message: Any, value: tuple[tuple[str, str], ...]) -> None:
        for name, text in value:
            getattr(message, field).add(name=name, value=text)

    return Special(
        put, lambda message: tuple([(each.name, each.value) for each in getattr(message, field)])
    )


def optional(field: str, shape: Shape[Any]) -> Special:
    """A nested message, or None."""

    def put(message: Any, value: Any) -> None:
        if value is not None:
            shape.put(getattr(message, field), value)

    return Special(
        put,
        lambda message: shape.take(getattr(message, field)) if message.HasField(field) else None,
    )


def texts(field: str) -> Special:
    """A tuple of strings."""
    return Special(
        lambda message, value: getattr(message, field).extend(value),
        lambda message: tuple(getattr(message, field)),
    )
