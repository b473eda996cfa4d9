"""What ``pvesh get`` prints of a node's PCI devices and of a VM: JSON, or a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.box_table import tables
from provision.readers.json_text import values
from provision.readers.lines import unquoted
from provision.readers.mention import Skipped
from provision.readers.signals import certainty, signal

What = Literal["pci-devices", "vm-config"]

_SIGNALS = (
    signal(0.9, r".{0,2000}\"iommugroup\"\s*:\s*-?\d"),
    signal(0.8, r".{0,2000}\"hostpci\d+\"\s*:\s*\""),
    signal(0.8, r"\s*[│|].{0,300}[│|]\s*iommugroup\s*[│|]"),
    signal(0.8, r"\s*[│|]\s*hostpci\d+\s*[│|]"),
)


class PveshOutput(Frozen):
    """Rows of one answer, every value as text."""

    what: What
    line: int
    rows: tuple[tuple[int, dict[str, str]], ...]
    """Line and values; a VM is one row."""
    skipped: tuple[Skipped, ...]

    @property
    def as_listing(self) -> str:
        """PCI devices in the form of ``lspci -nn`` below their groups, which :mod:`provision.readers.read` reads."""
        return "\n".join(_listed(row) for _, row in self.rows) if self.what == "pci-devices" else ""


def _listed(row: dict[str, str]) -> str:
    """One device; the API writes ids as ``0x10de``, the class as ``0x030000``, and group -1 for none."""
    class_code, vendor, device = (_hex(row.get(key, "")) for key in ("class", "vendor", "device"))
    name = " ".join(row.get(key, "") for key in ("vendor_name", "device_name")).strip() or "Device"
    head = f"{row.get('id', '')} Device [{class_code[:4]}]: {name} [{vendor}:{device}]"
    group = row.get("iommugroup", "")
    lines = [f"IOMMU Group {group} {head}" if group.isdecimal() else head]
    subsystem = [_hex(row.get(key, "")) for key in ("subsystem_vendor", "subsystem_device")]
    if all(subsystem):
        lines.append(f"\tSubsystem: Device [{subsystem[0]}:{subsystem[1]}]")
    return "\n".join(lines)


def _hex(text: str) -> str:
    return text.strip().lower().removeprefix("0x")


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[PveshOutput]:
    """Return the first answer of a known form."""
    plain = "\n".join(unquoted(text))
    for answer in (*_of_json(plain), *_of_tables(plain)):
        return answer
    return Unknown(
        unknown="it is no answer of pvesh about PCI devices or a VM",
        supply="give the output of: pvesh get /nodes/NODE/hardware/pci --output-format json",
    )


def _of_json(text: str) -> Iterator[PveshOutput]:
    for found in values(text):
        value = found.value
        if isinstance(value, dict) and isinstance(value.get("data"), list | dict):
            value = value["data"]
        listed = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        cut = (
            (Skipped(first=found.line, last=found.line, why="the JSON that begins here is cut"),)
            if found.is_cut
            else ()
        )
        if any("iommugroup" in item for item in listed):
            rows = tuple((_line(text, found.start, found.line, item), _texts(item)) for item in listed[:_MOST_ROWS])
            yield PveshOutput(what="pci-devices", line=found.line, rows=rows, skipped=cut)
        elif isinstance(value, dict) and any(key.startswith("hostpci") for key in value):
            yield PveshOutput(what="vm-config", line=found.line, rows=((found.line, _texts(value)),), skipped=cut)


_MOST_ROWS = 1000
_NEAR = 1_000_000


def _line(text: str, start: int, line: int, item: dict[str, Any]) -> int:
    at = text.find(f'"{item.get("id", "")}"', start, start + _NEAR)
    return line + text.count("\n", start, at) if at >= 0 else line


def _texts(item: dict[str, Any]) -> dict[str, str]:
    return {str(key): value if isinstance(value, str) else str(value) for key, value in item.items()}


def _of_tables(text: str) -> Iterator[PveshOutput]:
    for table in tables(text):
        if "iommugroup" in table.columns and "id" in table.columns:
            yield PveshOutput(what="pci-devices", line=table.line, rows=table.rows, skipped=())
        elif set(table.columns) == {"key", "value"}:
            row = {values["key"]: values["value"] for _, values in table.rows}
            if any(key.startswith("hostpci") for key in row):
                yield PveshOutput(what="vm-config", line=table.line, rows=((table.line, row),), skipped=())
