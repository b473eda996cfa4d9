"""No text raises, and what does not count does not change the value."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pci.address import Bdf
from provision.readers.read import Reading, read

DATA = Path(__file__).parents[1] / "data" / "readers"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.txt"))]
LINES = sorted({line for text in TEXTS for line in text.splitlines()})

pieces = (
    st.sampled_from(LINES)
    | st.text(max_size=60)
    | st.sampled_from(["", "IOMMU Group 3:", "-[0000:00]-+-00.0", "00: ff ff"])
)
mixtures = st.lists(pieces, max_size=40).map("\n".join)


def check(found: object) -> None:
    """A value of the one kind or the other, and sound in itself."""
    if isinstance(found, Unknown):
        return
    assert isinstance(found, Reading)
    for listing in found.listings:
        bdfs = [fn.bdf for fn in listing.functions]
        assert bdfs == sorted(set(bdfs), key=Bdf.parse)
        assert all(fn.parent != fn.bdf for fn in listing.functions)


@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    check(read(text))


@given(mixtures)
def test_lines_in_any_order(text: str) -> None:
    check(read(text))


@given(st.sampled_from(TEXTS), st.data())
def test_a_line_is_changed(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()[:80]
    index = data.draw(st.integers(0, len(lines) - 1))
    lines[index] = data.draw(st.text(max_size=80) | st.just(lines[index][: len(lines[index]) // 2]) | st.just(""))
    check(read("\n".join(lines)))


@given(mixtures)
def test_line_ends_do_not_count(text: str) -> None:
    plain = text.replace("\r", "")
    assert read(plain.replace("\n", "\r\n")) == read(plain)
