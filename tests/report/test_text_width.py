"""Texts are broken so that they fit, and no character is lost."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.report.text_width import fit, text_width


@given(st.text(max_size=80), st.floats(10, 400))
def test_lines_fit_and_hold_every_character(text: str, width: float) -> None:
    lines = fit(text, width, 12)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) == 1 or text_width(line, 12) <= width for line in lines)


def test_words_stay_whole_where_there_is_room() -> None:
    assert fit("RTX PRO 6000 Blackwell Server Edition", 160, 12) == ["RTX PRO 6000", "Blackwell Server", "Edition"]


def test_a_long_word_is_chopped() -> None:
    assert len(fit("x" * 100, 100, 12)) > 5


def test_nothing_is_one_empty_line() -> None:
    assert fit("", 100, 12) == [""]


@pytest.mark.parametrize("character", [c for c in string.printable if c >= " "] + ["\u2026", "\u00e9", "\U0001f600"])
def test_every_character_has_a_width(character: str) -> None:
    assert text_width(character, 10) > 0
    assert text_width(character, 10, bold=True) > text_width(character, 10)
