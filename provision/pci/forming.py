"""Put PCI functions into IOMMU groups, one after the other, as the kernel does while it probes them.

The rules are those of linux ``drivers/iommu/iommu.c`` (``pci_device_group``) and
``drivers/pci/pci.c`` (``pci_acs_enabled``), written anew over values.
"""

from __future__ import annotations

from collections.abc import Iterable

from provision.evidence import Maybe, Unknown, known
from provision.pci import acs
from provision.pci.acs_quirks import isolated_by_quirk
from provision.pci.address import Bdf
from provision.pci.kernel_options import KernelOptions
from provision.pci.model import PciFunction
from provision.pci.tree import Tree, is_multifunction, is_virtual, port_type

Groups = tuple[tuple[str, ...], ...]
"""BDFs of each group, in the order in which the kernel would number the groups."""

_AGAIN = "take a new capture"
_PORTS = ("root-port", "upstream-port", "downstream-port")
_OVERRIDE_DOWNSTREAM = ("root-port", "downstream-port")
_OVERRIDE_MULTIFUNCTION = ("endpoint", "upstream-port", "legacy-endpoint", "integrated-endpoint")


class _UndecidedError(Exception):
    """The group of a function hangs on a fact that is not known."""

    def __init__(self, why: Unknown) -> None:
        super().__init__(why.unknown)
        self.why = why


def form_groups(tree: Tree, options: KernelOptions, order: Iterable[PciFunction]) -> Maybe[Groups]:
    """Group the functions of ``tree`` in the order given; Unknown names the fact that is missing."""
    try:
        return _Former(tree, options).form(order)
    except _UndecidedError as undecided:
        return undecided.why


class _Former:
    """Puts one function after the other into a group, as the kernel does while it probes them."""

    def __init__(self, tree: Tree, options: KernelOptions) -> None:
        self._tree = tree
        self._options = options
        self._group_of: dict[str, int] = {}
        self._groups: list[list[str]] = []

    def form(self, order: Iterable[PciFunction]) -> Groups:
        for fn in order:
            number = self._group_for(fn)
            if number is None:
                number = len(self._groups)
                self._groups.append([])
            self._groups[number].append(fn.bdf)
            self._group_of[fn.bdf] = number
        return tuple(tuple(sorted(group, key=Bdf.parse)) for group in self._groups)

    def _group_for(self, fn: PciFunction) -> int | None:
        """Return the group to join, or None to found a new one."""
        missing = self._tree.missing_parent(fn)
        if missing is not None:
            raise _UndecidedError(
                Unknown(unknown=f"{fn.bdf}: the bridge above it ({missing}) was not captured", supply=_AGAIN)
            )
        point, group = self._dma_alias(fn)
        if group is not None:
            return group
        for bridge in tuple(self._tree.ancestors(point)):
            if self._is_path_isolated(bridge):
                break
            point = bridge
            group = self._group_of.get(bridge.bdf)
            if group is not None:
                return group
        return self._group_of_functions(point)

    def _dma_alias(self, fn: PciFunction) -> tuple[PciFunction, int | None]:
        """Return the function under whose requester id the DMA of ``fn`` leaves the conventional part.

        A PCIe-to-PCI bridge, and every bridge above which the bus is conventional, takes the
        place of what is below it.
        """
        point = self._tree.by_bdf.get(fn.dma_proxy or fn.bdf, fn)
        group = self._group_of.get(point.bdf)
        for bridge in self._tree.ancestors(point):
            if group is not None:
                break
            kind = _known(port_type(bridge), bridge, "its port type")
            if kind in _PORTS:
                continue
            point = bridge
            group = self._group_of.get(bridge.bdf)
        return point, group

    def _is_path_isolated(self, bridge: PciFunction) -> bool:
        """True where ``bridge`` and everything above it enforce isolation.

        One bridge that does not is enough, whatever is unknown about the others.
        """
        unknown: Unknown | None = None
        for step in (bridge, *self._tree.ancestors(bridge)):
            isolated = self._is_isolated(step)
            if isinstance(isolated, Unknown):
                unknown = isolated
            elif not isolated:
                return False
        if unknown is not None:
            raise _UndecidedError(unknown)
        return True

    def _group_of_functions(self, fn: PciFunction) -> int | None:
        """Join the functions of the same slot that are not isolated from each other."""
        if fn.bdf in self._group_of:
            return self._group_of[fn.bdf]
        others = [other for other in self._tree.siblings(fn) if other.bdf in self._group_of]
        if not others or is_virtual(fn):
            return None
        mine = self._is_isolated(fn)
        if not isinstance(mine, Unknown) and mine:
            return None
        for other in others:
            theirs = self._is_isolated(other)
            if not isinstance(theirs, Unknown) and theirs:
                continue
            for answer in (mine, theirs):
                if isinstance(answer, Unknown):
                    raise _UndecidedError(answer)
            return self._group_of[other.bdf]
        return None

    def _is_isolated(self, fn: PciFunction) -> Maybe[bool]:
        """``pci_acs_enabled`` for SV, RR, CR and UF."""
        if self._options.use_quirks:
            quirk = isolated_by_quirk(fn, self._tree)
            if isinstance(quirk, Unknown) or quirk is not None:
                return quirk if isinstance(quirk, Unknown) else True
        kind = port_type(fn)
        if isinstance(kind, Unknown):
            # A virtual function is never part of a multifunction device: the rest does not matter.
            return True if is_virtual(fn) else about(kind, fn, "its port type")
        overridden = self._is_overridden(fn, kind)
        if isinstance(overridden, Unknown) or overridden:
            return overridden
        if kind in (None, "pcie-to-pci-bridge", "pci-to-pcie-bridge", "event-collector"):
            return False
        if kind not in _OVERRIDE_DOWNSTREAM:
            multifunction = is_multifunction(fn, self._tree)
            if isinstance(multifunction, Unknown):
                return about(multifunction, fn, "whether it has several functions")
            if not multifunction:
                return True
        return self._has_acs_on(fn)

    def _is_overridden(self, fn: PciFunction, kind: str | None) -> Maybe[bool]:
        """``pcie_acs_override``: never for conventional devices nor for devices with a capability."""
        wanted = self._options.acs_override
        by_type = (kind in _OVERRIDE_DOWNSTREAM and "downstream" in wanted) or (
            kind in _OVERRIDE_MULTIFUNCTION
            and "multifunction" in wanted
            and bool(known(is_multifunction(fn, self._tree), default=False))
        )
        if kind is None or not (f"id:{fn.ids}" in wanted or by_type):
            return False
        state = acs.acs_of(fn)
        return about(state, fn, "its ACS capability") if isinstance(state, Unknown) else state is None

    def _has_acs_on(self, fn: PciFunction) -> Maybe[bool]:
        state = acs.acs_of(fn)
        if isinstance(state, Unknown):
            return about(state, fn, "its ACS capability")
        if state is None:
            return False
        options = self._options
        control = acs.predicted_control(
            fn, state, self._tree, options.disable_acs_redir, options.config_acs, options.firmware_acs
        )
        isolating = acs.is_isolating(state, control)
        if isolating is None:
            return Unknown(
                unknown=f"ACS of {fn.bdf} keeps bits of the firmware, which the running kernel has overwritten",
                supply="write all seven bits of pci=config_acs for this port instead of x",
            )
        return isolating


def _known(value: Maybe[str | None], fn: PciFunction, what: str) -> str | None:
    if isinstance(value, Unknown):
        raise _UndecidedError(about(value, fn, what))
    return value


def about(why: Unknown, fn: PciFunction, what: str) -> Unknown:
    return Unknown(unknown=f"{fn.bdf}: {what} is not known ({why.unknown})", supply=why.supply)
