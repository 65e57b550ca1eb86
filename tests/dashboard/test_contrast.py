"""Whoever reads the page can: each ink stands out from each ground, light and dark (WCAG AA)."""

import re

import pytest

from raftflow.dashboard import static_dir

LEAST = 4.5
STYLE = (static_dir() / "style.css").read_text("utf-8")
TOKENS = {
    name: pair
    for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", STYLE)
}
GROUNDS = ("ground", "surface", "raised")
INKS = ("ink", "quiet", "accent", "good", "busy", "calm", "warn", "bad", "plum")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ink", INKS)
def test_each_ink_on_each_ground(ink: str, scheme: int) -> None:
    for ground in GROUNDS:
        seen = contrast(TOKENS[ink][scheme], TOKENS[ground][scheme])
        assert seen >= LEAST, f"--{ink} on --{ground}: {seen:.2f}"


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_what_stands_on_the_accent(scheme: int) -> None:
    assert contrast(TOKENS["on-accent"][scheme], TOKENS["accent"][scheme]) >= LEAST
