"""The VMs that get devices of this host, with what their options say: the ground of all rules about VMs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from provision.doctor import cite
from provision.doctor.finding import Evidence, Undecidable
from provision.doctor.rule import undecided
from provision.doctor.slots import Slot, slots
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, HostPci, Vm
from provision.pci.model import PciFunction
from provision.pve.args import Args, ArgsError
from provision.pve.args_words import ArgsReading
from provision.pve.property_string import PropertyStringError, parse

NO = ("0", "no", "off", "false")
CLIQUE = "x-nv-gpudirect-clique"


@dataclass(frozen=True)
class Guest:
    """A VM whose configuration was read and that has at least one ``hostpciN``."""

    vm: Vm
    model: HostModel

    @property
    def name(self) -> str:
        return f"VM {self.vm.vmid}"

    @property
    def subject(self) -> str:
        return f"vm/{self.vm.vmid}"

    def get(self, key: str, default: str = "") -> str:
        return self.vm.config.get(key, default)

    def cite(self, key: str) -> Evidence:
        return cite.vm_option(self.vm, key)

    @cached_property
    def args(self) -> ArgsReading:
        """Empty where a quote is not closed: Proxmox then drops args as a whole."""
        try:
            return ArgsReading.of(Args.parse(self.get("args")))
        except ArgsError:
            return ArgsReading(())

    def options(self, key: str, default_key: str) -> dict[str, str]:
        """Return a property string's values; empty where Proxmox refuses the text."""
        try:
            return parse(self.get(key), default_key)
        except PropertyStringError:
            return {}

    @property
    def is_q35(self) -> bool:
        return "q35" in self.options("machine", "type").get("type", "")

    @cached_property
    def slots(self) -> Maybe[tuple[Slot, ...]]:
        return slots(self.vm, self.model)

    @cached_property
    def functions(self) -> Maybe[dict[int, tuple[PciFunction, ...]]]:
        """What each slot may get, of all its choices; addresses without a device are left out."""
        if isinstance(self.slots, Unknown):
            return self.slots
        if not self.model.pci:
            return Unknown(unknown="no PCI function was read", supply="add the output of lspci -Dnnvvv, run as root")
        found = {slot.index: [self.model.function(bdf) for bdf in sorted(slot.bdfs)] for slot in self.slots}
        return {index: tuple(f for f in some if f is not None) for index, some in found.items()}

    @cached_property
    def gpus(self) -> Maybe[tuple[PciFunction, ...]]:
        """Every NVIDIA GPU that a slot may get."""
        if isinstance(self.functions, Unknown):
            return self.functions
        return tuple({f.bdf: f for some in self.functions.values() for f in some if f.is_nvidia_gpu}.values())

    @cached_property
    def cliques(self) -> dict[str, str]:
        """The clique that ``-set`` gives to each QEMU device id (``hostpci0``)."""
        return {one.id: one.value for one in self.args.device_sets if one.property.endswith(CLIQUE)}

    @property
    def has_clique(self) -> bool:
        return CLIQUE in self.get("args")

    def in_clique(self) -> Maybe[dict[str, tuple[PciFunction, ...]]]:
        """Return the functions of each clique, by its number as written."""
        functions = self.functions
        if isinstance(functions, Unknown):
            return functions
        found: dict[str, list[PciFunction]] = {}
        for slot in self.vm.hostpci:
            value = self.cliques.get(f"hostpci{slot.index}") or self._for_all()
            if value is not None:
                found.setdefault(value, []).extend(functions.get(slot.index, ()))
        return {value: tuple(some) for value, some in found.items()}

    def _for_all(self) -> str | None:
        return next((one.value for one in self.args.globals if one.property == CLIQUE), None)

    def entry_paths(self, slot: HostPci) -> Maybe[tuple[str, ...]]:
        """Return the addresses of a slot as they are written: its own, or those of its mapping's entries."""
        if slot.mapping is None:
            return tuple((slot.host or "").split(";"))
        mappings = self.model.proxmox.mappings
        if isinstance(mappings, Unknown):
            return mappings
        return tuple(
            entry.path
            for mapping in mappings
            if mapping.id == slot.mapping
            for entry in mapping.entries
            if entry.node == self.vm.node
        )


def guests(rule: str, model: HostModel) -> Iterator[Guest | Undecidable]:
    """Yield the VMs with devices, and what keeps a VM from being looked at."""
    vms, node = model.proxmox.vms, model.proxmox.node
    if isinstance(vms, Unknown):
        yield undecided(rule, vms, "the VMs of this node")
        return
    for vm in vms:
        if isinstance(node, str) and vm.node != node:
            continue
        if isinstance(vm.config_text, Unknown):
            yield undecided(rule, vm.config_text, f"configuration of VM {vm.vmid}")
        elif vm.hostpci and vm.config.get("template") != "1":
            yield Guest(vm, model)
