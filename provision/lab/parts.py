"""Parts that a lab machine is built of: ids, capabilities at their offsets, registers, drivers.

``parts.yaml`` holds them.  All scalars of the file are read as text, so that ``01.1`` and ``10:20``
stay what they are; this module gives them their types.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from provision.evidence import Frozen
from provision.lab.values import BarText, Hex, Ids
from provision.pci.model import PortType

StandardCap = Literal["pm", "msi", "msix", "express", "vendor", "ssvid", "ht", "af", "secure"]
ExtendedCap = Literal[
    "vsec",
    "aer",
    "secondary",
    "acs",
    "dpc",
    "dlf",
    "phy16",
    "phy32",
    "margining",
    "ltr",
    "rebar",
    "vrebar",
    "ari",
    "sriov",
    "power-budget",
    "dsn",
    "vc",
    "ats",
    "pasid",
]


class Acs(Frozen):
    """Access Control Services: what the port can do, and what firmware left in its control register."""

    capability: Hex
    firmware: Hex = 0


class LinkSpeed(Frozen):
    gen: int = Field(ge=1, le=6)
    width: int = Field(ge=1, le=32)
    idle_gen: int | None = None
    """Generation that the link falls back to while nothing runs; none: it stays."""


class Sriov(Frozen):
    total_vfs: int = Field(ge=1)
    offset: int = 2
    stride: int = 1
    device: Hex
    bars: tuple[BarText, ...] = ()
    """Of one virtual function."""


class Part(Frozen):
    """One kind of PCI function.  Offsets, ids and masks are hexadecimal in the file."""

    name: str
    ids: Ids
    class_code: Hex
    revision: Hex = 0
    subsystem: Ids | None = None
    port: PortType | None = None
    """``None``: a conventional function without the PCI Express capability."""
    bridge: bool = False
    caps: dict[StandardCap, Hex] = {}
    ext: dict[ExtendedCap, Hex] = {}
    acs: Acs | None = None
    link: LinkSpeed | None = None
    bars: tuple[BarText, ...] = ()
    rebar: tuple[int, str, str] | None = None
    """Register that can be resized, smallest and largest size: ``[2, 64M, 128G]``."""
    sriov: Sriov | None = None
    flr: bool = False
    resets: tuple[str, ...] = ()
    driver: str | None = None
    """Driver that the host's kernel binds when nothing forbids it."""
    module: str | None = None
    """Module of that driver; ``None`` where it is built in."""
    translated: bool = True
    """``False`` for what no IOMMU table names, and which is in no group: AMD's root complex and the IOMMU itself."""


def read_plain(text: str) -> Any:
    """Read YAML with every scalar as text: an unquoted bus number is not a number of base 60."""
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (this loader makes texts, lists and mappings only)


@cache
def parts() -> dict[str, Part]:
    """Return every part by name."""
    raw = read_plain((Path(__file__).parent / "parts.yaml").read_text(encoding="utf-8"))
    return {name: Part(name=name, **fields) for name, fields in raw.items()}


def part(name: str) -> Part:
    """Return the part called ``name``.  Raises ``KeyError`` where there is none."""
    return parts()[name]
