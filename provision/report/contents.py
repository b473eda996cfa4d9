"""The boxes of a host: NUMA nodes, host bridges, ports, devices; and the VMs that own devices."""

from __future__ import annotations

from typing import Final

from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel
from provision.host.text_layout import count, ids_text
from provision.pci.model import PciFunction
from provision.pci.model_names import class_name, model_name, vendor_name
from provision.pci.tree import Tree, is_virtual, port_type
from provision.plan.model import Plan
from provision.report.groups import outlines
from provision.report.picture import Item, Kind, Line, Picture
from provision.report.states import After, Now, State, VmBox
from provision.report.words import acs_text, bar1_text, explain, facts, is_narrow, isolates, link_text, show

ACROSS: Final = 4
"""Boxes side by side at most: a picture stays readable at the width of a page."""

_SHOWN: Final[dict[int, Kind]] = {0x01: "disk", 0x02: "nic", 0x03: "display"}
_PORTS: Final = {
    "root-port": "root port",
    "upstream-port": "switch, upstream port",
    "downstream-port": "switch, downstream port",
    "pcie-to-pci-bridge": "PCIe-to-PCI bridge",
    "pci-to-pcie-bridge": "PCI-to-PCIe bridge",
}
_ISOLATING: Final = ("root-port", "downstream-port")
"""Ports that keep apart what is below them, if they have ACS; the kernel asks no other port."""


def pictures(model: HostModel, plan: Plan | None = None, *, show_all: bool = False) -> tuple[Picture, ...]:
    """Return the picture of the host as it is, and with a plan a second one of what it will be.

    ``show_all`` draws every function instead of the branches to GPUs, NICs, disks and displays.
    """
    now = _Contents(model, Now(model), None, show_all=show_all).picture()
    if plan is None:
        return (now,)
    return now, _Contents(model, After(model, plan), Now(model), show_all=show_all).picture()


class _Contents:
    def __init__(self, model: HostModel, state: State, before: State | None, *, show_all: bool) -> None:
        self._model = model
        self._state = state
        self._before = before
        self._show_all = show_all
        self._tree = Tree(model.pci)
        self._uses = _uses(model)

    def picture(self) -> Picture:
        nodes: dict[str, list[Item]] = {}
        for root in self._tree.roots():
            box = self._bridge(root)
            if box is not None:
                nodes.setdefault(self._node_title(root), []).append(box)
        ordered = sorted(nodes)
        boxes = [self._node(title, nodes[title]) for title in ordered]
        owners = self._owners()
        head = (Line(self._title(), "title"),)
        host = Item("host", "host", head, children=(*boxes, *([owners] if owners else [])))
        return Picture(self._state.name, self._state.title, host, outlines(host), self._notes())

    def _title(self) -> str:
        model = self._model
        units = model.iommu.units
        iommu = "IOMMU ?" if isinstance(units, Unknown) else f"IOMMU on ({count(len(units), 'unit')})"
        parts = [
            show(model.proxmox.version, "Proxmox VE {}", "no Proxmox VE"),
            show(model.kernel.release, "kernel {}"),
            count(len(model.gpus()), "NVIDIA GPU"),
            iommu if units != () else "IOMMU off",
        ]
        return f"{show(model.hostname)}: {', '.join(parts)}"

    def _notes(self) -> tuple[str, ...]:
        hidden = len(self._model.pci) - sum(self._is_shown(fn) for fn in self._model.pci)
        return (f"{count(hidden, 'other function')} not shown",) if hidden else ()

    def _node_title(self, root: str) -> str:
        nodes = [fn.numa_node for fn in self._model.pci if fn.root == root]
        node: Maybe[int | None] = next((node for node in nodes if isinstance(node, int)), nodes[0] if nodes else None)
        return show(node, "NUMA node {}", "no NUMA node given")

    def _node(self, title: str, bridges: list[Item]) -> Item:
        number = title.removeprefix("NUMA node ")
        cpus = known(self._model.kernel.numa_cpus, {}).get(int(number)) if number.isdecimal() else None
        head = f"{title}, CPUs {cpus}" if cpus else title
        return Item(title, "node", (Line(head, "title"),), children=tuple(bridges), columns=min(len(bridges), ACROSS))

    def _bridge(self, root: str) -> Item | None:
        functions = self._tree.below_root(root)
        boxes = tuple(self._function(fn) for fn in functions if self._is_shown(fn))
        if not boxes:
            return None
        unit = next((fn.iommu_unit for fn in functions if isinstance(fn.iommu_unit, str)), None)
        acpi = functions[0].root_acpi_path
        place = ", ".join(filter(None, (show(acpi, "ACPI {}"), unit)))
        lines = [Line(f"host bridge {root or '?'}", "title"), Line(place, "muted")]
        is_narrow_bridge = len(self._tree.roots()) > 1 and len(boxes) <= ACROSS
        columns = 1 if is_narrow_bridge else min(len(boxes), ACROSS)
        details = (("ACPI path", explain(acpi)), ("IOMMU unit", unit or "not known"))
        return Item(root or "?", "bridge", tuple(x for x in lines if x.text), details, boxes, columns)

    def _function(self, fn: PciFunction) -> Item:
        children = tuple(self._function(child) for child in self._tree.children(fn) if self._is_shown(child))
        group = self._state.group(fn)
        owners = known(self._state.owners(fn), ())
        lines = self._port_lines(fn) if fn.is_bridge else self._device_lines(fn)
        is_fan = port_type(fn) in ("upstream-port", "pcie-to-pci-bridge")
        return Item(
            key=fn.bdf,
            kind=_kind(fn),
            lines=tuple(line for line in lines if line.text),
            details=self._details(fn),
            children=children,
            columns=min(max(len(children), 1), ACROSS) if is_fan else 1,
            group=group if isinstance(group, int) else None,
            owners=tuple(f"VM {owner.vm}" for owner in owners if owner.vm is not None),
        )

    def _port_lines(self, fn: PciFunction) -> list[Line]:
        kind = port_type(fn)
        name = "bridge ?" if isinstance(kind, Unknown) else _PORTS.get(kind or "", "PCI bridge")
        return [
            Line(fn.bdf, "title"),
            Line(", ".join(filter(None, (name, link_text(fn.link))))),
            Line(acs_text(fn), "warn" if kind in _ISOLATING and not isolates(fn) else "plain"),
            self._group(fn),
        ]

    def _device_lines(self, fn: PciFunction) -> list[Line]:
        if fn.is_nvidia_gpu:
            name = model_name(fn.ids) or fn.description or "model not listed"
            lines = [Line(f"GPU {fn.bdf}", "title"), Line(name), Line(f"{ids_text(fn)}, {bar1_text(fn)}", "muted")]
        else:
            name = f"{class_name(fn.class_code)} {fn.description or vendor_name(fn.vendor)}"
            lines = [Line(fn.bdf, "title"), Line(name), Line(ids_text(fn), "muted")]
        lines += [Line(link_text(fn.link), "warn" if is_narrow(fn.link) else "muted")]
        lines += [self._driver(fn), self._group(fn), *(Line(use) for use in self._uses.get(fn.bdf, []))]
        lines += [Line("boot display", "warn")] if known(fn.boot_vga, default=None) else []
        lines += [Line(text, "warn") for text in self._state.stale(fn)]
        return [*lines, *self._owner_lines(fn)]

    def _driver(self, fn: PciFunction) -> Line:
        driver = self._state.driver(fn)
        changed = self._before is not None and self._before.driver(fn) != driver
        return Line(show(driver, "driver {}", "no driver"), "changed" if changed else "muted")

    def _group(self, fn: PciFunction) -> Line:
        group = self._state.group(fn)
        text = show(group, "group {}", "no group")
        if self._before is None or isinstance(group, Unknown) or self._before.group(fn) == group:
            return Line(text)
        return Line(show(self._before.group(fn), text + " (was {})", text + " (had none)"), "changed")

    def _owner_lines(self, fn: PciFunction) -> list[Line]:
        owners = self._state.owners(fn)
        if isinstance(owners, Unknown):
            return [Line("owner ?")] if fn.is_nvidia_gpu else []
        changed = self._before is not None and self._before.owners(fn) != owners
        if not owners and fn.is_nvidia_gpu:
            return [Line("no VM, no mapping", "muted")]
        return [Line(owner.phrase, "changed" if changed else "plain") for owner in owners]

    def _details(self, fn: PciFunction) -> tuple[tuple[str, str], ...]:
        group = self._state.group(fn)
        found = [("group", explain(group)), ("driver", explain(self._state.driver(fn)))]
        members = self._model.group_of(fn.bdf)
        if members is not None and members.number == group and len(members.members) > 1:
            found.append(("in one group with", " ".join(bdf for bdf in members.members if bdf != fn.bdf)))
        owners = self._state.owners(fn)
        if isinstance(owners, Unknown):
            found.append(("owner", explain(owners)))
        found += [("owner", owner.phrase) for owner in known(owners, ())]
        return (*found, *facts(fn))

    def _is_shown(self, fn: PciFunction) -> bool:
        return self._is_wanted(fn) or any(self._is_wanted(other) for other in self._tree.descendants(fn))

    def _is_wanted(self, fn: PciFunction) -> bool:
        if self._show_all:
            return True
        if is_virtual(fn):
            return False
        is_companion = any(other.is_nvidia_gpu for other in self._tree.siblings(fn))
        return fn.base_class in _SHOWN or is_companion or (fn.vendor, fn.class_code >> 8) == (0x10DE, 0x0680)

    def _owners(self) -> Item | None:
        vms = self._state.vms()
        if isinstance(vms, Unknown):
            return Item("owners", "owners", (Line("Virtual machines: not known", "title"),), (("why", explain(vms)),))
        if not vms:
            return None
        boxes = tuple(_vm_item(box) for box in vms)
        head = (Line("Virtual machines with devices", "title"),)
        return Item("owners", "owners", head, children=boxes, columns=min(len(boxes), ACROSS))


def _vm_item(box: VmBox) -> Item:
    key = f"VM {box.vmid}"
    return Item(key, "vm", box.lines, tuple(("", line.text) for line in box.lines[1:]), owners=(key,))


def _kind(fn: PciFunction) -> Kind:
    if fn.is_bridge:
        return "port"
    return "gpu" if fn.is_nvidia_gpu else _SHOWN.get(fn.base_class, "other")


def _uses(model: HostModel) -> dict[str, list[str]]:
    """What the host itself uses a function for."""
    uses: dict[str, list[str]] = {}
    disks = [(disk.bdf, disk.name, disk.uses) for disk in known(model.disks, ())]
    nets = [(net.bdf, net.name, net.uses) for net in known(model.interfaces, ())]
    for bdf, name, purposes in disks + nets:
        if isinstance(bdf, str):
            uses.setdefault(bdf, []).append(f"{name}: {', '.join(purposes)}" if purposes else name)
    return uses
