"""Whether a mapping still fits the hardware: what ``check-node`` reports and VM start refuses."""

from __future__ import annotations

from provision.lab.hardware import Device, device
from provision.lab.proxmox.formats import MAP_ENTRY, parse
from provision.lab.proxmox.mapping_store import Section
from provision.lab.rootfs import Rootfs


def entries_of(section: Section, node: str) -> list[dict[str, str]]:
    """Return the parsed entries of one node in file order."""
    parsed = [parse(entry, MAP_ENTRY, "map") for entry in section.entries]
    return [entry for entry in parsed if entry["node"] == node]


def problem(root: Rootfs, name: str, section: Section, entry: dict[str, str]) -> str | None:
    """Return Proxmox' text for the first property of an entry that does not fit, ``None`` when it fits."""
    for index, path in enumerate(entry["path"].split(";")):
        bdf = path if "." in path else f"{path}.0"
        found = device(root, bdf)
        if found is None:
            return f"pci device '{bdf}' not found"
        configured = _configured(section, entry)
        text = _compare(name, bdf, _expected(found), configured, with_group=index == 0)
        if text is not None:
            return text
    return None


def _expected(found: Device) -> dict[str, str | None]:
    return {
        "id": found.ids,
        "iommugroup": None if found.group is None else str(found.group),
        "mdev": "1" if found.has_mdev else "0",
        "subsystem-id": found.subsystem,
    }


def _configured(section: Section, entry: dict[str, str]) -> dict[str, str | None]:
    return {
        "id": entry.get("id"),
        "iommugroup": entry.get("iommugroup"),
        "mdev": section.options.get("mdev", "0"),
        "subsystem-id": entry.get("subsystem-id"),
    }


def _compare(
    name: str, bdf: str, expected: dict[str, str | None], configured: dict[str, str | None], *, with_group: bool
) -> str | None:
    for key in sorted(expected):
        if key == "iommugroup" and not with_group:
            continue
        hardware, wished = expected[key], configured[key]
        if hardware is None and wished is None:
            continue
        if wished is None:
            return f"missing expected property '{key}' for device '{bdf}'"
        if hardware is None:
            return f"unexpected property '{key}' configured for device '{bdf}'"
        if hardware != wished:
            return f"'{key}' does not match for '{name}' ({hardware} != {wished})"
    return None


def checks(root: Rootfs, name: str, section: Section, node: str) -> list[dict[str, str]]:
    """Return the ``checks`` of one row of ``GET /cluster/mapping/pci?check-node=``."""
    entries = entries_of(section, node)
    if not entries:
        return [{"severity": "warning", "message": f"No mapping for node {node}."}]
    found = (problem(root, name, section, entry) for entry in entries)
    return [{"severity": "error", "message": f"Invalid configuration: {text}\n"} for text in found if text is not None]
