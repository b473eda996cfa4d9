from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.boot.cmdline import Cmdline, Token

TEXT = st.text(alphabet='ab-_="$ \t\n.,:5', max_size=60)


@given(st.text(max_size=80))
def test_any_text_renders_as_it_was(text: str) -> None:
    assert Cmdline.parse(text).render() == text


@given(TEXT)
def test_texts_near_the_grammar_render_as_they_were(text: str) -> None:
    assert Cmdline.parse(text).render() == text


@given(TEXT, st.sampled_from(["iommu=pt", "quiet", "a=b"]))
def test_an_added_token_is_found_and_can_be_removed(text: str, token: str) -> None:
    line = Cmdline.parse(text.replace('"', ""))
    added = line.add(token)
    assert Cmdline.parse(added.render()).has(token)
    removed = added.remove(token)
    assert not Cmdline.parse(removed.render()).has(token)
    if not line.has(token):
        assert [t.raw for t in removed.tokens] == [t.raw for t in line.tokens]


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        ("quiet amd_iommu=on", "amd_iommu=on", "quiet"),
        ("quiet amd-iommu=on splash", "amd_iommu=on", "quiet splash"),
        ("  amd_iommu=on  quiet", "amd_iommu=on", "  quiet"),
        ("quiet  amd_iommu=on  splash \n", "amd_iommu=on", "quiet  splash \n"),
        ("iommu=pt quiet iommu=pt", "iommu=pt", "quiet"),
        ("amd_iommu=off quiet", "amd_iommu=on", "amd_iommu=off quiet"),
        ("quiet -- iommu=pt", "iommu=pt", "quiet -- iommu=pt"),
        ('quiet foo="a b" x', 'foo="a b"', "quiet x"),
    ],
)
def test_removal_touches_nothing_else(text: str, token: str, expected: str) -> None:
    assert Cmdline.parse(text).remove(token).render() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "iommu=pt"),
        ("quiet", "quiet iommu=pt"),
        ("quiet\n", "quiet iommu=pt\n"),
        ("quiet -- init", "quiet iommu=pt -- init"),
        ("-- init", "iommu=pt -- init"),
    ],
)
def test_additions_stand_before_what_belongs_to_init(text: str, expected: str) -> None:
    assert Cmdline.parse(text).add("iommu=pt").render() == expected


def test_duplicates_are_kept_and_the_last_wins() -> None:
    line = Cmdline.parse("console=tty0 console=ttyS0,115200 iommu=pt iommu=nopt")
    assert line.values("console") == ("tty0", "ttyS0,115200")
    last = line.last("iommu")
    assert last is not None
    assert last.value == "nopt"
    assert line.last("absent") is None


def test_quotes_around_value_or_whole() -> None:
    assert Token('dyndbg="file a +p"').value == "file a +p"
    assert Token('"dyndbg=file a +p"').name == "dyndbg"
    assert Token("quiet").value is None
