"""What the lab's kernel makes of a machine at boot: IOMMU, access control, groups, drivers.

Pure.  The rules for groups and access control are :mod:`provision.pci`'s, the same that plans use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provision.evidence import Unknown
from provision.lab.config_space import build
from provision.lab.host_config import HostConfig
from provision.lab.layout import Layout, Placed
from provision.lab.machine import Machine
from provision.lab.values import size_in_bytes
from provision.pci import config as pci_config
from provision.pci.acs import predicted_control
from provision.pci.grouping import KernelOptions, predict_groups
from provision.pci.model import AcsState, PciFunction
from provision.pci.tree import Tree

Parameter = tuple[str, str | None]


@dataclass(frozen=True)
class KernelState:
    """One boot's result; functions are named by BDF."""

    cmdline: str
    iommu_on: bool
    group_type: str
    """Default domain of host-owned devices: ``DMA-FQ``, ``DMA`` or ``identity``."""
    acs: Mapping[str, int]
    groups: tuple[tuple[str, ...], ...]
    drivers: Mapping[str, str]
    overrides: Mapping[str, str]
    modules: tuple[str, ...]
    hugepages: Mapping[int, tuple[int, ...]]
    """Reserved pages on each NUMA node, by size in bytes."""
    powered: frozenset[str] = frozenset()
    """Functions whose power must not be cut while they sleep: ``d3cold_allowed`` is 0."""
    vfio_stays_awake: bool = False

    def group_of(self, bdf: str) -> int | None:
        return next((number for number, members in enumerate(self.groups) if bdf in members), None)


def parameters(cmdline: str) -> tuple[Parameter, ...]:
    """Split a kernel command line; double quotes protect blanks (lib/cmdline.c, ``next_arg``)."""
    words: list[str] = []
    current, quoted = "", False
    for char in cmdline.strip():
        if char == '"':
            quoted = not quoted
        elif char.isspace() and not quoted:
            words += [current] if current else []
            current = ""
        else:
            current += char
    words += [current] if current else []
    return tuple((key, value if equals else None) for key, equals, value in (w.partition("=") for w in words))


def values_of(given: Iterable[Parameter], name: str) -> tuple[str, ...]:
    """Return the values of a parameter in order; dashes and underscores are the same to the kernel."""
    wanted = name.replace("-", "_")
    return tuple(value for key, value in given if key.replace("-", "_") == wanted and value is not None)


def group_type(given: Iterable[Parameter]) -> str:
    given = tuple(given)
    identity = False
    for word in (word for value in values_of(given, "iommu") for word in value.split(",")):
        identity = {"pt": True, "nopt": False}.get(word, identity)
    for value in values_of(given, "iommu.passthrough"):
        identity = value in ("1", "y", "on")
    strict = any(value in ("1", "y", "on") for value in values_of(given, "iommu.strict"))
    return "identity" if identity else ("DMA" if strict else "DMA-FQ")


def default_page(given: Iterable[Parameter]) -> int:
    """Size in bytes of the huge pages that ``hugepages=`` means where no size stands before it."""
    return size_in_bytes((*values_of(given, "default_hugepagesz"), "2M")[0])


def reserved_pages(given: Iterable[Parameter], nodes: int) -> dict[int, tuple[int, ...]]:
    """Return the huge pages that the command line reserves: ``hugepages=8``, spread, or ``hugepages=0:4,1:8``."""
    given = tuple(given)
    size = default_page(given)
    found: dict[int, tuple[int, ...]] = {}
    for key, value in given:
        if key == "hugepagesz" and value:
            size = size_in_bytes(value)
        elif key == "hugepages" and value:
            found[size] = _on_nodes(value, nodes)
    return found


def _on_nodes(value: str, nodes: int) -> tuple[int, ...]:
    if ":" not in value:
        return tuple(int(value) // nodes + (node < int(value) % nodes) for node in range(nodes))
    wanted = {int(node): int(count) for node, _, count in (part.partition(":") for part in value.split(","))}
    return tuple(wanted.get(node, 0) for node in range(nodes))


def start(machine: Machine, layout: Layout, config: HostConfig, cmdline: str) -> KernelState:
    """Return the state of a kernel that was booted with ``cmdline`` on what ``config`` says."""
    options = kernel_options(machine, layout, cmdline)
    acs = _controls(layout, options)
    groups = _groups(machine, layout, acs, options) if options.iommu_on else ()
    given = parameters(cmdline)
    drivers, overrides, modules = _drivers(layout, config, given)
    return KernelState(
        cmdline,
        options.iommu_on,
        group_type(given),
        acs,
        groups,
        drivers,
        overrides,
        modules,
        reserved_pages(given, len(machine.numa)),
        powered=frozenset(str(placed.bdf) for placed in layout.functions if not config.d3cold_allowed(placed)),
        vfio_stays_awake=config.vfio_stays_awake,
    )


def kernel_options(machine: Machine, layout: Layout, cmdline: str) -> KernelOptions:
    """Return what the command line makes of this machine, whose firmware's registers we know."""
    return KernelOptions.from_cmdline(
        cmdline,
        machine.cpu.vendor,
        release=machine.versions.kernel,
        firmware_table=machine.firmware.iommu_table is not None,
        firmware_acs=_firmware_acs(layout),
    )


def as_functions(layout: Layout, acs: Mapping[str, int]) -> tuple[PciFunction, ...]:
    """Return the machine's functions as the product's own decoder sees their configuration space."""
    shared = multifunction_slots(layout)
    return tuple(_function(placed, shared, acs.get(str(placed.bdf), 0)) for placed in layout.functions)


def multifunction_slots(layout: Layout) -> frozenset[str]:
    """Slots with more than one function, whose function 0 says so in its header."""
    return frozenset(placed.bdf.slot for placed in layout.functions if placed.bdf.function > 0)


def _function(placed: Placed, shared: frozenset[str], control: int) -> PciFunction:
    part = placed.part
    raw = build(placed, multifunction=placed.bdf.slot in shared, acs_control=control)
    return PciFunction(
        bdf=str(placed.bdf),
        vendor=part.ids[0],
        device=part.ids[1],
        class_code=part.class_code,
        revision=part.revision,
        subsystem_vendor=part.subsystem[0] if part.subsystem else None,
        subsystem_device=part.subsystem[1] if part.subsystem else None,
        parent=str(placed.parent) if placed.parent else None,
        root=placed.bridge.sysfs_name,
        root_acpi_path=placed.bridge.acpi,
        bars=placed.bars,
        config=pci_config.decode(raw),
    )


def _firmware_acs(layout: Layout) -> dict[str, int]:
    return {
        str(placed.bdf): state.firmware & state.capability
        for placed in layout.functions
        if (state := placed.function.acs_state) is not None
    }


def _controls(layout: Layout, options: KernelOptions) -> dict[str, int]:
    """Control registers after enumeration: without an IOMMU only what a parameter names is touched."""
    firmware = dict(options.firmware_acs)
    functions = as_functions(layout, firmware)
    tree = Tree(functions)
    rules = (*options.disable_acs_redir, *options.config_acs)
    for function in functions:
        state = None if isinstance(function.config, Unknown) else function.config.acs
        if not isinstance(state, AcsState):
            continue
        if options.iommu_on or any(rule.matches(function, tree) for rule in rules):
            control = predicted_control(
                function, state, tree, options.disable_acs_redir, options.config_acs, options.firmware_acs
            )
            firmware[function.bdf] = control.value
    return firmware


def _groups(
    machine: Machine, layout: Layout, acs: Mapping[str, int], options: KernelOptions
) -> tuple[tuple[str, ...], ...]:
    predicted = predict_groups(as_functions(layout, acs), options)
    if isinstance(predicted, Unknown):
        raise TypeError(f"the groups of {machine.name} cannot be computed: {predicted}")
    outside = {str(placed.bdf) for placed in layout.functions if not is_translated(placed)}
    kept = (tuple(bdf for bdf in members if bdf not in outside) for members in predicted)
    return tuple(members for members in kept if members)


def is_translated(placed: Placed) -> bool:
    """Whether an IOMMU stands above the function: without one it is in no group."""
    return placed.part.translated and placed.bridge.iommu is not None


def _drivers(
    layout: Layout, config: HostConfig, given: tuple[Parameter, ...]
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    forbidden = set(config.blacklist) | {
        _plain(name)
        for key in ("modprobe.blacklist", "module_blacklist")
        for value in values_of(given, key)
        for name in value.split(",")
    }
    loaded = {module for module in config.loads if module not in forbidden}
    if _wanted_modules(layout, forbidden) & config.before_vfio:
        loaded.add("vfio_pci")
    ids = config.vfio_ids | {i for v in values_of(given, "vfio_pci.ids") for i in v.lower().split(",")}
    drivers: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for placed in layout.functions:
        bdf, part = str(placed.bdf), placed.part
        override = config.override(placed)
        if override:
            overrides[bdf] = override
        driver = _driver_of(placed, override, loaded, ids, forbidden)
        if driver:
            drivers[bdf] = driver
            loaded |= {part.module} if part.module and driver == part.driver else set()
    return drivers, overrides, tuple(sorted(loaded))


def _wanted_modules(layout: Layout, forbidden: set[str]) -> set[str]:
    """Modules that the aliases of the machine's functions load."""
    modules = {_plain(placed.part.module) for placed in layout.functions if placed.part.module}
    return modules - forbidden


def _driver_of(
    placed: Placed, override: str | None, loaded: set[str], ids: frozenset[str] | set[str], forbidden: set[str]
) -> str | None:
    part = placed.part
    vfio = "vfio_pci" in loaded
    if override == "vfio-pci":
        return "vfio-pci" if vfio else None
    if override is not None and override != part.driver:
        return None
    if vfio and not part.bridge and f"{part.ids[0]:04x}:{part.ids[1]:04x}" in ids:
        return "vfio-pci"
    if part.driver is None or (part.module is not None and _plain(part.module) in forbidden):
        return None
    return part.driver


def _plain(module: str) -> str:
    return module.strip().replace("-", "_")
