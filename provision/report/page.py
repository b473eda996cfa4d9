"""Pictures as one HTML page that needs nothing else: no network, no second file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from provision.report.picture import Picture
from provision.report.svg import clean, element


@dataclass(frozen=True)
class Assets:
    """Shipped texts that a page is made of."""

    page: str
    """HTML with ``@TITLE@``, ``@POLICY@``, ``@STYLE@``, ``@TABS@``, ``@PICTURES@`` and ``@SCRIPT@``."""
    page_style: str
    picture_style: str
    script: str


def page(pictures: Sequence[Picture], assets: Assets) -> str:
    """Return the page: one picture is shown at a time, with zoom, search and details of every box."""
    values = {
        "TITLE": escape(clean(pictures[0].root.lines[0].text)),
        "POLICY": _policy(assets.script),
        "STYLE": assets.picture_style + assets.page_style,
        "TABS": _tabs(pictures),
        "PICTURES": "\n".join(_section(picture, number) for number, picture in enumerate(pictures)),
        "SCRIPT": assets.script,
    }
    first, *parts = assets.page.split("@")
    return first + "".join(values.get(part, part) for part in parts)


def _policy(script: str) -> str:
    """Let the page's own script run and load nothing at all."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _tabs(pictures: Sequence[Picture]) -> str:
    if len(pictures) < 2:
        return ""
    return "".join(
        f'<button type="button" class="tab" data-tab="{escape(picture.name)}" aria-pressed="{_flag(number == 0)}">'
        f"{escape(picture.title)}</button>"
        for number, picture in enumerate(pictures)
    )


def _section(picture: Picture, number: int) -> str:
    hidden = " hidden" if number else ""
    return f'<section class="view" data-view="{escape(picture.name)}"{hidden}>{element([picture], "")}</section>'


def _flag(value: bool) -> str:
    return "true" if value else "false"
