"""Messages of any protobuf type, made from its descriptor: what a client of another language, of
another release or of ill will may send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
}
_STRANGE = (
    *("", "\x00", "a\nb", "\x7f", "\u0085", "\u202e", "🙂", "/", "..", "a,b", "x" * 1_000),
    *("x" * 1_001, "é" * 501, "x" * 70_000, "{}", '{"a": 1}', "[" * 5_000, "null"),
)
# Fields that no release has: of each wire type, a group, and numbers at the ends of what there is.
_UNKNOWN = (
    b"",
    b"\xf8\x07\x01",
    b"\xf9\x07" + bytes(8),
    b"\xfa\x07\x03abc",
    b"\xfb\x07\xfc\x07",
    b"\xfd\x07" + bytes(4),
    b"\xf8\xff\xff\xff\x0f\x01",
)


@dataclass(frozen=True, slots=True)
class Taste:
    """``words``: strings worth trying, by the name of their field. ``aim`` makes a message that is
    nearly right more so, by a drawn number. Of a tame message most calls are right."""

    words: Mapping[str, Sequence[str]]
    aim: Callable[[Any, int], None]
    tame: bool = False

    def known(self, field: FieldDescriptor) -> Sequence[str] | None:
        """Strings worth trying in this field; a number may bear the same name elsewhere."""
        return self.words.get(field.name) if field.type == FieldDescriptor.TYPE_STRING else None


def wire(kind: Descriptor, taste: Taste) -> st.SearchStrategy[bytes]:
    """Bytes that are a message of this kind, that nearly are one, or that are anything."""
    right = st.builds(
        partial(_aimed, taste.aim), messages(kind, replace(taste, tame=True)), st.integers(0, 999)
    )
    whole = st.one_of(right, right, messages(kind, taste)).map(
        lambda message: bytes(message.SerializeToString())
    )
    return st.one_of(
        whole,
        whole,
        st.tuples(whole, st.sampled_from(_UNKNOWN)).map(b"".join),
        st.tuples(whole, st.integers(0, 1 << 16), st.binary(min_size=1, max_size=3)).map(_bent),
        st.binary(max_size=40),
    )


def _aimed(aim: Callable[[Any, int], None], message: Any, number: int) -> Any:
    aim(message, number)
    return message


def _bent(parts: tuple[bytes, int, bytes]) -> bytes:
    """Some bytes in the middle are others."""
    data, place, put = parts
    place %= len(data) + 1
    return data[:place] + put + data[place + len(put) :]


@st.composite
def messages(draw: st.DrawFn, kind: Descriptor, taste: Taste, depth: int = 0) -> Any:
    message = message_factory.GetMessageClass(kind)()
    for field in kind.fields:
        likely = taste.tame and taste.known(field) is not None
        if not likely and not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field, taste, depth)
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                _append(draw, getattr(message, field.name), field, taste, depth)
        elif field.message_type is not None:
            if depth < 4:
                inner = draw(messages(field.message_type, taste, depth + 1))
                getattr(message, field.name).CopyFrom(inner)
        else:
            setattr(message, field.name, draw(scalars(field, taste)))
    return message


def _append(draw: st.DrawFn, target: Any, field: FieldDescriptor, taste: Taste, depth: int) -> None:
    if field.message_type is None:
        target.append(draw(scalars(field, taste)))
    elif depth < 4:
        target.append(draw(messages(field.message_type, taste, depth + 1)))


def _fill_map(
    draw: st.DrawFn, target: Any, field: FieldDescriptor, taste: Taste, depth: int
) -> None:
    entry = field.message_type.fields_by_name
    for _ in range(draw(st.integers(0, 3))):
        key = draw(scalars(entry["key"], taste))
        if entry["value"].message_type is None:
            target[key] = draw(scalars(entry["value"], taste))
        else:
            target[key].CopyFrom(draw(messages(entry["value"].message_type, taste, depth + 1)))


def scalars(field: FieldDescriptor, taste: Taste) -> st.SearchStrategy[Any]:
    known = taste.known(field)
    if taste.tame and known is not None:
        return st.sampled_from(known)
    bounds = _INTEGERS.get(field.cpp_type)
    if bounds is not None:
        least, most = bounds
        few = st.integers(max(least, 0), min(most, 3))
        return few if taste.tame else few | st.integers(least, most)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return st.floats(0, 1) if taste.tame else st.floats(0, 2) | st.floats(width=32)
    assert field.cpp_type == FieldDescriptor.CPPTYPE_STRING, field.full_name
    if field.type == FieldDescriptor.TYPE_BYTES:
        few_bytes = st.binary(max_size=20)
        huge = st.sampled_from([b"\xff", bytes((2 << 20) + 1)])
        return few_bytes if taste.tame else few_bytes | huge
    if taste.tame:
        return st.text('ab "/🙂', max_size=4)
    text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
        _STRANGE
    )
    return text if known is None else st.sampled_from(known) | text
