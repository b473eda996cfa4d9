"""Pictures as SVG text.  One file holds its own style, light and dark; nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from provision.report.layout import LINE, PADDING, Placed, Rect, head_of, place_for_screen
from provision.report.picture import Item, Line, Outline, Picture
from provision.report.text_width import fit, text_width

MARGIN: Final = 20.0
HEADING: Final = 34.0
_STRIPE: Final = 5.0
_OUTSET: Final = 4.0
_LEGEND_ROW: Final = 18.0
_STRIPED: Final = frozenset(("gpu", "nic", "disk", "display", "other", "vm"))
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold."""

LEGEND: Final = (
    "Dotted outline: an IOMMU group.  Thick dashed outline in color: a group of several cards; a VM gets all of it.",
    "ACS bits of a port: + on, - off though the port offers it, . not offered.",
    "gen1 x16 of gen5 x16: what the link runs at now, and what it can; an idle link falls back to gen1.",
)


def svg(pictures: Sequence[Picture], style: str) -> str:
    """Return one SVG document with the pictures below each other; ``style`` is the CSS of the class ``topology``."""
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + element(pictures, style) + "\n"


def element(pictures: Sequence[Picture], style: str) -> str:
    """Return the ``svg`` element alone, to be put into a page; without a style the page gives it."""
    top, width, parts = MARGIN, 0.0, []
    for picture in pictures:
        text, bottom, right = _panel(picture, top)
        parts.append(text)
        top, width = bottom + MARGIN, max(width, right)
    width += MARGIN
    legend, height = _legend(top, width - 2 * MARGIN)
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    label = quoteattr(clean(f"PCI topology, {pictures[0].root.lines[0].text}"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" role="img" aria-label={label} {size}>'
    css = f"<style>{escape(style)}</style>" if style else ""
    paper = '<rect class="paper" width="100%" height="100%" style="fill: var(--paper)"/>'
    return "\n".join([head + css, paper, *parts, legend, "</svg>"])


def _panel(picture: Picture, top: float) -> tuple[str, float, float]:
    """One picture under its heading: its text, and where it ends below and to the right."""
    boxes = place_for_screen(picture.root)
    rects = {box.item.key: box.rect for box in boxes}
    heading = f'<text class="heading" x="{MARGIN:g}" y="{top + 20:g}">{escape(picture.title)}</text>'
    inner = [_box(box) for box in boxes]
    heads = {box.item.key: head_of(box) for box in boxes}
    for outline in picture.outlines:
        inner += [_outline(outline, _outset(rects[key])) for key in outline.keys]
        inner += [_outline(outline, heads[key]) for key in outline.heads]
    offset = top + HEADING
    group = f'<g class="panel" data-panel={quoteattr(picture.name)} transform="translate({MARGIN:g} {offset:g})">'
    whole = rects[picture.root.key]
    bottom = offset + whole.height
    notes = "".join(
        f'<text class="muted" x="{MARGIN:g}" y="{bottom + 16 * (number + 1):g}">{escape(note)}</text>'
        for number, note in enumerate(picture.notes)
    )
    text = "\n".join([heading, group, *inner, "</g>", notes])
    return text, bottom + 16 * len(picture.notes), MARGIN + max(whole.width, text_width(picture.title, 18, bold=True))


def _box(box: Placed) -> str:
    item, rect = box.item, box.rect
    attributes = f'class="box {item.kind}" data-key={quoteattr(clean(item.key))}'
    if item.group is not None:
        attributes += f' data-group="{item.group}"'
    if item.owners:
        attributes += f" data-owners={quoteattr(';'.join(item.owners))}"
    body = f'<rect x="{rect.left:g}" y="{rect.top:g}" width="{rect.width:g}" height="{rect.height:g}" rx="5"/>'
    if item.kind in _STRIPED:
        body += (
            f'<rect class="stripe" x="{rect.left:g}" y="{rect.top:g}" width="{_STRIPE:g}" '
            f'height="{rect.height:g}" rx="2"/>'
        )
    lines = "".join(_text(line, rect, number) for number, line in enumerate(box.lines))
    return f"<g {attributes}><title>{escape(clean(tooltip(item)))}</title>{body}{lines}</g>"


def _text(line: Line, rect: Rect, number: int) -> str:
    left, base = rect.left + PADDING, rect.top + PADDING + LINE * number + 11
    return f'<text class="{line.tone}" x="{left:g}" y="{base:g}">{escape(clean(line.text))}</text>'


def tooltip(item: Item) -> str:
    """Everything about one box: its key, and a line ``name: value`` for each fact."""
    facts = [f"{name}: {value}" if name else value for name, value in item.details]
    return "\n".join([" ".join(line.text for line in item.lines if line.tone == "title"), *facts])


def _outset(rect: Rect) -> Rect:
    return Rect(rect.left - _OUTSET, rect.top - _OUTSET, rect.width + 2 * _OUTSET, rect.height + 2 * _OUTSET)


def _outline(outline: Outline, rect: Rect) -> str:
    kind = f"outline shared c{outline.color}" if outline.is_shared else "outline"
    return (
        f'<rect class="{kind}" data-group="{outline.group}" x="{rect.left:g}" y="{rect.top:g}" '
        f'width="{rect.width:g}" height="{rect.height:g}" rx="6"/>'
    )


def _legend(top: float, width: float) -> tuple[str, float]:
    """The legend, broken to the width of the picture, and the height of the whole."""
    lines = [text for sentence in LEGEND for text in fit(sentence, width, 12)]
    rows = (
        f'<text class="muted" x="{MARGIN:g}" y="{top + 12 + _LEGEND_ROW * number:g}">{escape(text)}</text>'
        for number, text in enumerate(lines)
    )
    return "\n".join(rows), top + _LEGEND_ROW * len(lines) + MARGIN


def clean(text: str) -> str:
    """Return the text without characters that no document may hold."""
    return _FORBIDDEN.sub("\ufffd", text)
