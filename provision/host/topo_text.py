"""The PCI tree of a host as text: by NUMA node and host bridge, down to GPUs, NICs, disks and displays."""

from __future__ import annotations

from collections.abc import Iterator

from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel
from provision.host.owners import owners
from provision.host.pci import NO_VENDOR
from provision.host.text_layout import Notes, count, ids_text, size, wrap
from provision.pci.acs import acs_of
from provision.pci.bars import memory_bar
from provision.pci.config import AS_ROOT
from provision.pci.grouping import compare_present
from provision.pci.model import ACS_BITS, REQUIRED_ACS, Link, PciFunction
from provision.pci.model_names import class_name, model_name, vendor_name
from provision.pci.tree import Tree, is_virtual, port_type

_WANTED_CLASSES = (0x01, 0x02, 0x03)
_KINDS = {
    "root-port": "root port",
    "upstream-port": "switch, upstream port",
    "downstream-port": "switch, downstream port",
    "pcie-to-pci-bridge": "PCIe-to-PCI bridge",
    "pci-to-pcie-bridge": "PCI-to-PCIe bridge",
}
_NO_CLASS = Unknown(
    unknown="classes or vendors of devices could not be read", supply="take a capture, or use the output of: lspci -nn"
)
_LEGEND = (
    "ACS bits: + on, - off though the port offers it, . not offered.  "
    "A port isolates what is below it when SV, RR, CR and UF are + or dotted."
)


def render(model: HostModel, *, show_all: bool = False, next_command: str = "") -> str:
    """Return the text, at most 100 columns wide.

    ``show_all`` prints every function instead of the branches to GPUs, NICs, disks and displays.
    A fact that is not known is ``?`` with the number of a note that says why and how to supply it.
    """
    return _Topology(model, show_all=show_all).text(next_command)


class _Topology:
    def __init__(self, model: HostModel, *, show_all: bool) -> None:
        self._model = model
        self._show_all = show_all
        self._tree = Tree(model.pci)
        self._notes = Notes()
        self._uses = _uses(model)

    def text(self, next_command: str) -> str:
        lines = [*self._head(), ""]
        for title, roots in self._by_node().items():
            lines.append(title)
            for root in roots:
                lines.extend(self._root(root))
            lines.append("")
        lines.extend(self._hidden())
        lines.extend(self._groups())
        lines += ["", *wrap("", [_LEGEND], "")]
        lines.extend(self._notes.lines())
        if next_command:
            lines += ["", f"Next: {next_command}"]
        return "\n".join(lines) + "\n"

    def _show(self, value: Maybe[object], form: str = "{}", absent: str = "") -> str:
        """Return a fact in words: ``absent`` where it was looked for and is not there."""
        if isinstance(value, Unknown):
            return form.format(self._notes.mark(value))
        return absent if value is None else form.format(value)

    def _head(self) -> list[str]:
        model = self._model
        units = model.iommu.units
        if isinstance(units, Unknown):
            iommu = f"IOMMU {self._notes.mark(units)}"
        else:
            iommu = f"IOMMU on ({count(len(units), 'unit')})" if units else "IOMMU off"
        parts = [
            self._show(model.proxmox.version, "Proxmox VE {}", "no Proxmox VE"),
            self._show(model.kernel.release, "kernel {}"),
            self._gpu_count(),
            iommu,
        ]
        return wrap(f"{self._show(model.hostname)}: ", parts, "  ")

    def _gpu_count(self) -> str:
        """A text without classes or vendors does not say that there is no GPU."""
        found = self._model.gpus()
        if not found and any(_may_be_gpu(fn) for fn in self._model.pci):
            return f"NVIDIA GPUs {self._notes.mark(_NO_CLASS)}"
        return count(len(found), "NVIDIA GPU")

    def _by_node(self) -> dict[str, list[str]]:
        """Host bridges that show something, under the title of their NUMA node."""
        nodes: dict[str, list[str]] = {}
        for root in sorted(self._tree.roots(), key=self._node_order):
            if any(self._is_wanted(fn) for fn in self._below_root(root)):
                nodes.setdefault(self._node_title(root), []).append(root)
        return nodes

    def _below_root(self, root: str) -> list[PciFunction]:
        return [fn for fn in self._model.pci if fn.root == root]

    def _node_of(self, root: str) -> Maybe[int | None]:
        """The node of a host bridge is that of the functions below it; firmware gives it for all or none."""
        nodes = [fn.numa_node for fn in self._below_root(root)]
        return next((node for node in nodes if isinstance(node, int)), nodes[0] if nodes else None)

    def _node_order(self, root: str) -> tuple[int, int]:
        node = known(self._node_of(root), None)
        return (len(self._model.pci) if node is None else node, self._tree.roots().index(root))

    def _node_title(self, root: str) -> str:
        node = self._node_of(root)
        if not isinstance(node, int):
            return self._show(node, "NUMA node {}", "no NUMA node (firmware gives none)")
        cpus = known(self._model.kernel.numa_cpus, {}).get(node)
        return f"NUMA node {node}" + (f", CPUs {cpus}" if cpus else "")

    def _root(self, root: str) -> Iterator[str]:
        functions = self._tree.below_root(root)
        acpi = functions[0].root_acpi_path if functions else None
        name = root or "host bridge not known"
        yield f"  {name}  {self._show(acpi, 'ACPI {}')}".rstrip()
        for fn in functions:
            yield from self._branch(fn, "    ")

    def _branch(self, fn: PciFunction, indent: str) -> Iterator[str]:
        if not self._is_shown(fn):
            return
        yield from self._function(fn, indent)
        for child in self._tree.children(fn):
            yield from self._branch(child, indent + "  ")

    def _is_shown(self, fn: PciFunction) -> bool:
        return self._is_wanted(fn) or any(self._is_wanted(other) for other in self._tree.descendants(fn))

    def _is_wanted(self, fn: PciFunction) -> bool:
        """What a person looks for, and the companions of a GPU; virtual functions only with ``--all``."""
        if self._show_all:
            return True
        if is_virtual(fn):
            return False
        is_companion = any(other.is_nvidia_gpu for other in self._tree.siblings(fn))
        return fn.base_class in _WANTED_CLASSES or is_companion or (fn.vendor, fn.class_code >> 8) == (0x10DE, 0x0680)

    def _function(self, fn: PciFunction, indent: str) -> list[str]:
        if fn.is_bridge:
            return wrap(
                f"{indent}{fn.bdf} {self._bridge_kind(fn)} {ids_text(fn)}: ", self._bridge_facts(fn), indent + "  "
            )
        if fn.is_nvidia_gpu:
            name = model_name(fn.ids) or fn.description or "model not listed"
            head = f"{indent}{fn.bdf} GPU {name} {ids_text(fn)}"
            return [head, *wrap(f"{indent}  ", self._gpu_facts(fn), indent + "  ")]
        head = f"{indent}{fn.bdf} {class_name(fn.class_code)} {_maker(fn)} {ids_text(fn)}: "
        return wrap(head, self._device_facts(fn), indent + "  ")

    def _bridge_kind(self, fn: PciFunction) -> str:
        kind = port_type(fn)
        if isinstance(kind, Unknown):
            return f"bridge {self._notes.mark(kind)}"
        return _KINDS.get(kind or "", "PCI bridge")

    def _bridge_facts(self, fn: PciFunction) -> list[str]:
        facts = [self._link(fn.link), self._acs(fn), self._group(fn)]
        return [fact for fact in facts if fact]

    def _device_facts(self, fn: PciFunction) -> list[str]:
        facts = [self._link(fn.link), self._driver(fn), self._group(fn)]
        facts += [*self._uses.get(fn.bdf, []), self._unknown_uses(fn)]
        if known(fn.boot_vga, default=None):
            facts.append("boot display")
        return [fact for fact in facts if fact]

    def _unknown_uses(self, fn: PciFunction) -> str:
        things = {0x01: self._model.disks, 0x02: self._model.interfaces}.get(fn.base_class)
        return f"used for {self._notes.mark(things)}" if isinstance(things, Unknown) else ""

    def _gpu_facts(self, fn: PciFunction) -> list[str]:
        facts = [self._link(fn.link), self._bar1(fn), self._driver(fn), self._group(fn), self._numa(fn)]
        facts.append(self._show(fn.slot_name, "slot {}"))
        if isinstance(fn.boot_vga, Unknown) or fn.boot_vga:
            facts.append(
                self._show(fn.boot_vga, "boot display {}") if isinstance(fn.boot_vga, Unknown) else "boot display"
            )
        facts.append(self._owner(fn))
        return [fact for fact in facts if fact]

    def _owner(self, fn: PciFunction) -> str:
        claims = owners(fn, self._model)
        if isinstance(claims, Unknown):
            return f"owner {self._notes.mark(claims)}"
        return " and ".join(claims) or "no VM, no mapping"

    def _numa(self, fn: PciFunction) -> str:
        """The title above names the node; it is repeated only where the function has another one."""
        if fn.numa_node == self._node_of(fn.root):
            return ""
        return self._show(fn.numa_node, "NUMA {}", "NUMA not given")

    def _driver(self, fn: PciFunction) -> str:
        return self._show(fn.driver, "driver {}", "no driver")

    def _link(self, link: Maybe[Link | None]) -> str:
        """``gen5 x16``, or what it runs at now and what it could."""
        if link is None or isinstance(link, Unknown):
            return "" if link is None else f"link {self._notes.mark(link)}"
        now = f"{self._show(link.current_gen, 'gen{}')} {self._show(link.current_width, 'x{}')}"
        most = f"{self._show(link.max_gen, 'gen{}')} {self._show(link.max_width, 'x{}')}"
        return now if now == most else f"{now} of {most}"

    def _bar1(self, fn: PciFunction) -> str:
        bar = memory_bar(fn)
        if isinstance(bar, Unknown):
            return f"BAR1 {self._notes.mark(bar)}"
        return f"BAR1 {size(bar.size)}" if bar else "BAR1 not assigned"

    def _acs(self, fn: PciFunction) -> str:
        state = acs_of(fn)
        if isinstance(state, Unknown):
            mark = self._notes.mark(state)
            return f"ACS: unreadable (needs root) {mark[2:]}" if state.supply == AS_ROOT else f"ACS {mark}"
        if state is None:
            return "no ACS"
        bits = [(name, 1 << bit) for bit, name in enumerate(ACS_BITS) if REQUIRED_ACS >> bit & 1]
        signs = (
            f"{name}{'.' if not state.capability & mask else '+' if state.control & mask else '-'}"
            for name, mask in bits
        )
        return "ACS " + " ".join(signs)

    def _group(self, fn: PciFunction) -> str:
        if not isinstance(fn.iommu_group, int):
            return self._show(fn.iommu_group, "group {}", "no group")
        group = next((group for group in self._model.iommu.groups if group.number == fn.iommu_group), None)
        kind = self._show(group.type, " ({})") if group else ""
        return f"group {fn.iommu_group}{kind}"

    def _hidden(self) -> list[str]:
        hidden = sum(not self._is_shown(fn) for fn in self._model.pci)
        return [f"{count(hidden, 'other function')} not shown; --all shows them.", ""] if hidden else []

    def _groups(self) -> Iterator[str]:
        if self._model.iommu.units == ():
            yield "IOMMU groups: none, the IOMMU is off"
            return
        groups = self._model.iommu.groups
        unknown = next((fn.iommu_group for fn in self._model.pci if isinstance(fn.iommu_group, Unknown)), None)
        if not groups and unknown is not None:
            yield f"IOMMU groups: {self._notes.mark(unknown)}"
            return
        comparison = compare_present(self._model)
        meaning = {
            "equal": "as the ports' ACS explains",
            "quirk": "as the ports' ACS and the kernel's table of quirks explain",
            "not-reproduced": "not explained by the ports' ACS: no prediction after a change is offered",
            "unknown": "not checked against the ports' ACS",
        }[comparison.result]
        yield f"IOMMU groups: {len(groups)}, {meaning}"
        if comparison.result in ("not-reproduced", "unknown"):
            for detail in comparison.details:
                yield from wrap("  ", [detail], "    ")
        yield from self._shared_groups()

    def _shared_groups(self) -> Iterator[str]:
        """GPUs that share their group with functions of another slot; bridges do not count."""
        shared = False
        for gpu in self._model.gpus():
            group = self._model.group_of(gpu.bdf)
            others = [self._tree.by_bdf[bdf] for bdf in group.members if bdf in self._tree.by_bdf] if group else []
            foreign = [fn for fn in others if fn.bdf[:-2] != gpu.bdf[:-2] and not fn.is_bridge]
            if foreign and group:
                shared = True
                names = [f"{fn.bdf} {class_name(fn.class_code)}" for fn in foreign]
                yield from wrap(f"  group {group.number}: GPU {gpu.bdf} shares it with ", names, "    ")
        unknown = any(isinstance(gpu.iommu_group, Unknown) for gpu in self._model.gpus())
        if self._model.gpus() and self._model.iommu.groups and not shared and not unknown:
            yield "  Every GPU is alone in its group, but for its own functions and the bridges above it."


def _may_be_gpu(fn: PciFunction) -> bool:
    is_display = fn.class_code >> 8 in (0x0300, 0x0302)
    return fn.base_class == 0xFF or (is_display and fn.vendor == NO_VENDOR)


def _maker(fn: PciFunction) -> str:
    """The vendor's short name; what lspci printed where the vendor's id is not known."""
    return fn.description or "?" if fn.vendor == NO_VENDOR else vendor_name(fn.vendor)


def _uses(model: HostModel) -> dict[str, list[str]]:
    """What the host itself uses a function for."""
    uses: dict[str, list[str]] = {}
    disks, interfaces = known(model.disks, ()), known(model.interfaces, ())
    for name, bdf, purposes in [(thing.name, thing.bdf, thing.uses) for thing in disks] + [
        (thing.name, thing.bdf, thing.uses) for thing in interfaces
    ]:
        if isinstance(bdf, str):
            uses.setdefault(bdf, []).append(f"{name} ({', '.join(purposes)})" if purposes else name)
    return uses
