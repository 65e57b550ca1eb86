"""What may stand on a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest

from raftflow.cluster.printable import json_text, printable, printable_lines

HOSTILE = (
    *("\x00", "\x07", "\x08", "\r", "\n", "\t", "\x1b", "\x7f"),
    *map(chr, range(0x80, 0xA0)),  # C1: \x9b begins a sequence as ESC [ does
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
    *("\u061c", "\u200e", "\u200f"),  # marks of direction
    *("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad"),  # no width
    *("\u2028", "\u2029", "\u00a0", "\u3000"),  # other line ends and spaces
    *("\u034f", "\u115f", "\u3164", "\uffa0", "\u2800", "\ufe0f", "\U000e0100"),
    *("\ue000", "\udcff", "\U000e0041"),  # private, no character at all, a tag
)


@pytest.mark.parametrize("character", HOSTILE, ids=lambda each: f"U+{ord(each):04X}")
def test_nothing_hidden_and_nothing_that_steers(character: str) -> None:
    shown = printable(f"a{character}b")
    assert character not in shown
    assert shown.startswith("a\\")
    document = json_text({"id": f"a{character}b"}, indent=2)
    assert json.loads(document) == {"id": f"a{character}b"}
    assert character == "\n" or character not in document


@pytest.mark.parametrize("text", ["plain ~!", "Köln", "e\u0301", "订单", "заказ", "טקסט", "🦆"])
def test_what_people_write_is_shown(text: str) -> None:
    assert printable(text) == text
    assert json_text(text) == f'"{text}"'


def test_no_format_character_passes() -> None:
    """Whatever Unicode's categories call format, control, surrogate, private or unassigned."""
    passed = [
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code))[0] == "C" and chr(code) in printable(chr(code))
    ]
    assert passed == []


def test_other_values() -> None:
    assert printable(None) == "-"
    assert printable(7) == "7"
    assert printable({"a": ["\x1b"]}) == '{"a": ["\\u001b"]}'
    assert printable_lines("a\nb\x1b") == "a\nb\\x1b"
