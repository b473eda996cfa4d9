"""HTML elements out of plain text: what is not already markup is escaped, so no name or log line can become any."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from provision.report.svg import clean

_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that turn the direction of writing: with them a line could show another order than it has."""
_VOID: Final = frozenset(("meta", "input", "use", "line", "rect", "circle", "path", "polyline", "polygon"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = Markup | str | int | None
"""A plain string is text; None is nothing."""


def text(value: object) -> Markup:
    """Return the value as text of a document, quotes too."""
    return Markup(escape(_TURNING.sub("\ufffd", clean(str(value)))))


def join(parts: Iterable[Content], between: str = "") -> Markup:
    return Markup(text(between).join(_content(part) for part in parts if part is not None))


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """Return one element.  ``class_`` is ``class``, ``aria_label`` is ``aria-label``; True is a bare attribute."""
    head = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID and not content:
        return Markup(f"<{name}{head}/>")
    return Markup(f"<{name}{head}>{join(content)}</{name}>")


def _content(part: Content) -> Markup:
    return part if isinstance(part, Markup) else text(part)


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {name}" if value else ""
    return f' {name}="{text(value)}"'


def lines(items: Iterable[Content]) -> Markup:
    """Return a list of one item a line."""
    return tag("ul", *(tag("li", item) for item in items))


def table(head: Iterable[Content], rows: Iterable[Iterable[Content]], *, caption: str, kind: str = "plain") -> Markup:
    """Return a table with a row of column heads; the first cell of each row is its head.  It scrolls by itself."""
    first = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = []
    for row in rows:
        name, *cells = row
        body.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
    inner = tag("table", tag("caption", caption), tag("thead", first), tag("tbody", *body), class_=kind)
    return tag("div", inner, class_="wide", tabindex=0, role="region", aria_label=caption)


def section(key: str, title: str, *content: Content) -> Markup:
    return tag("section", tag("h2", title, id=f"{key}-title"), *content, id=key, aria_labelledby=f"{key}-title")
