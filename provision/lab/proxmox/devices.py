"""Which host devices each ``hostpciN`` of a VM gets: mappings asserted, alternatives tried in file order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from provision.lab.hardware import DEVICES
from provision.lab.proxmox import formats
from provision.lab.proxmox.faults import die
from provision.lab.proxmox.mapping_check import entries_of, problem
from provision.lab.proxmox.mapping_store import MappingStore
from provision.lab.proxmox.node import Node

Log = Callable[[str], None]


@dataclass(frozen=True)
class Slot:
    """One ``hostpciN``: the functions it may get, one alternative after another, and the one chosen."""

    index: int
    options: dict[str, str]
    alternatives: tuple[tuple[str, ...], ...]
    mapped: bool
    migratable: bool = False
    chosen: tuple[str, ...] = ()

    @property
    def pcie(self) -> bool:
        return formats.BOOLEANS.get(self.options.get("pcie", "0"), "0") == "1"


def slots(node: Node, config: dict[str, str], log: Log) -> list[Slot]:
    """Return every slot of a VM with its alternatives.  Raises CallFailed as command generation does."""
    store = MappingStore.load(node.root)
    found: list[Slot] = []
    for index in range(16):
        text = config.get(f"hostpci{index}")
        if text is not None:
            if not found:
                for warning in store.warnings:
                    log(warning)
            found.append(_slot(node, store, index, formats.split(text, "host"), log))
    if "q35" not in config.get("machine", "") and any(slot.pcie for slot in found):
        die("q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510.")
    return found


def _slot(node: Node, store: MappingStore, index: int, options: dict[str, str], log: Log) -> Slot:
    host, mapping = options.get("host"), options.get("mapping")
    if host and mapping:
        die("Cannot set both 'host' and 'mapping'.")
    if mapping:
        section = store.sections.get(mapping)
        entries = entries_of(section, node.name) if section else []
        if section is None or not entries:
            log(f"PCI device mapping not found for '{mapping}'")
            die(f"PCI device mapping not found for '{mapping}'")
        for entry in entries:
            wrong = problem(node.root, mapping, section, entry)
            if wrong is not None:
                text = f"PCI device mapping invalid (hardware probably changed): {wrong}"
                log(f"{text}\n")
                die(f"{text}\n\n")
        alternatives = tuple(_expand(node, entry["path"], log) for entry in entries)
        migratable = section.options.get("live-migration-capable") == "1"
        return Slot(index, options, alternatives, mapped=True, migratable=migratable)
    if not host:
        die("Either 'host' or 'mapping' must be set.")
    return Slot(index, options, (_expand(node, host, log),), mapped=False)


def _expand(node: Node, paths: str, log: Log) -> tuple[str, ...]:
    functions: list[str] = []
    for path in paths.split(";"):
        full = path if re.match(r"[a-f0-9]{4,}:", path) else f"0000:{path}"
        prefix = full if "." in full else f"{full}."
        names = [
            name for name in node.root.names(DEVICES) if (name == full if "." in full else name.startswith(prefix))
        ]
        if not names:
            log(f"no PCI device found for '{full}'")
            die(f"no PCI device found for '{full}'")
        functions.extend(names)
    return tuple(functions)


def choose(found: list[Slot], taken: set[str]) -> list[Slot]:
    """Give each slot in turn its only alternative, or the first that is free.

    ``taken`` are the devices of other VMs; one of them as only alternative is refused later, when it is reserved.
    """
    used: set[str] = set()
    chosen: list[Slot] = []
    for slot in found:
        if len(slot.alternatives) == 1:
            pick: tuple[str, ...] | None = slot.alternatives[0]
        else:
            pick = next((option for option in slot.alternatives if not set(option) & (used | taken)), None)
        if pick is None:
            die(f"could not find a free device for 'hostpci{slot.index}'")
        for bdf in pick:
            if bdf in used:
                die(f"device '{bdf}' assigned more than once")
        used.update(pick)
        chosen.append(replace(slot, chosen=pick))
    return chosen
