"""What a VM's ``hostpciN`` slots can stand for on this host."""

from __future__ import annotations

from dataclasses import dataclass

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, HostPci, Vm


@dataclass(frozen=True)
class Slot:
    """One ``hostpciN``.

    ``choices`` are its alternatives, each a bundle of BDFs that goes into the guest together: one for a
    slot by address, one for each entry of a mapping (Proxmox takes the first that is free).
    """

    index: int
    mapping: str | None
    choices: tuple[tuple[str, ...], ...]

    @property
    def is_pool(self) -> bool:
        return len(self.choices) > 1

    @property
    def bdfs(self) -> frozenset[str]:
        return frozenset(bdf for choice in self.choices for bdf in choice)


def slots(vm: Vm, model: HostModel) -> Maybe[tuple[Slot, ...]]:
    """Return the VM's slots in order, or Unknown where its configuration or the mappings were not read."""
    if isinstance(vm.config_text, Unknown):
        return vm.config_text
    found = []
    for slot in vm.hostpci:
        choices = _choices(slot, vm.node, model)
        if isinstance(choices, Unknown):
            return choices
        found.append(Slot(slot.index, slot.mapping, choices))
    return tuple(found)


def _choices(slot: HostPci, node: str, model: HostModel) -> Maybe[tuple[tuple[str, ...], ...]]:
    if slot.mapping is None:
        return (_functions(slot.host or "", model),)
    mappings = model.proxmox.mappings
    if isinstance(mappings, Unknown):
        return mappings
    entries = (entry for mapping in mappings if mapping.id == slot.mapping for entry in mapping.entries)
    return tuple(_functions(entry.path, model) for entry in entries if entry.node == node)


def _functions(path: str, model: HostModel) -> tuple[str, ...]:
    """Return the functions of ``0000:41:00.0``, ``41:00`` (all of its functions) or a list with ``;``."""
    found: list[str] = []
    for part in path.split(";"):
        full = part if part.count(":") == 2 else f"0000:{part}"
        if "." in full:
            found.append(full)
        else:
            found += [f.bdf for f in model.pci if f.bdf.startswith(f"{full}.")] or [f"{full}.0"]
    return tuple(found)
