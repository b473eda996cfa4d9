"""The IOMMU groups of a host: as the kernel would build them, and compared with those it has.

Where the outcome hangs on a fact that could not be read, the result is Unknown: no future is
offered on a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from provision.evidence import Frozen, Maybe, Unknown, known
from provision.pci.acs import acs_of
from provision.pci.address import Bdf
from provision.pci.forming import Groups, about, form_groups
from provision.pci.kernel_options import KernelOptions
from provision.pci.model import AcsState, PciFunction
from provision.pci.tree import Tree, is_virtual

__all__ = [
    "Comparison",
    "Groups",
    "KernelOptions",
    "compare_present",
    "options_for",
    "predict_groups",
    "predict_numbers",
    "present_options",
]


def predict_groups(functions: Sequence[PciFunction], options: KernelOptions) -> Maybe[Groups]:
    """Return the groups as tuples of BDFs, in the order in which the kernel would number them.

    Give every function of the host.  Without an active IOMMU there are none.  Where functions have
    groups now, one that has none is not covered by any IOMMU and stays out (AMD's own IOMMU function
    and the host bridge beside it).  Unknown where an ACS capability, a port type or a firmware value
    that decides could not be read.
    """
    if not options.iommu_on:
        return ()
    tree = Tree(functions)
    return form_groups(tree, options, _processing_order(tree))


def _processing_order(tree: Tree) -> tuple[PciFunction, ...]:
    """The order in which the kernel hands functions to their IOMMU.

    Each IOMMU unit takes its own functions, in scan order, when it is registered; host bridges are scanned in
    the order in which firmware lists them, which need not be that of their bus numbers.  Which unit and which
    bridge came first shows in the present numbers; without numbers or units it is plain scan order.
    """
    order = _covered(tree.scan_order())
    units = _lowest_numbers(order, _unit)
    bridges = _lowest_numbers(order, lambda fn: f"{_unit(fn)} {fn.root}")
    if not units:
        return order
    last = max(bridges.values()) + 1

    def place(fn: PciFunction) -> tuple[bool, int, int]:
        return is_virtual(fn), units.get(_unit(fn), last), bridges.get(f"{_unit(fn)} {fn.root}", last)

    return tuple(sorted(order, key=place))


def _unit(fn: PciFunction) -> str:
    return known(fn.iommu_unit, None) or fn.root


def _lowest_numbers(functions: Sequence[PciFunction], key: Callable[[PciFunction], str]) -> dict[str, int]:
    """The lowest present group number of the functions with the same key, where there are any."""
    lowest: dict[str, int] = {}
    for fn in functions:
        number = known(fn.iommu_group, None)
        if number is not None:
            lowest[key(fn)] = min(number, lowest.get(key(fn), number))
    return lowest


def _covered(order: tuple[PciFunction, ...]) -> tuple[PciFunction, ...]:
    if not any(isinstance(fn.iommu_group, int) for fn in order):
        return order
    return tuple(fn for fn in order if fn.iommu_group is not None)


class _Kernel(Protocol):
    @property
    def release(self) -> Maybe[str]: ...
    @property
    def running_cmdline(self) -> Maybe[str]: ...
    @property
    def cpu_vendor(self) -> Maybe[str]: ...


class _Iommu(Protocol):
    @property
    def units(self) -> Maybe[tuple[str, ...]]: ...
    @property
    def firmware_table(self) -> Maybe[str | None]: ...


class _Model(Protocol):
    """The part of :class:`provision.host.model.HostModel` that grouping needs."""

    @property
    def pci(self) -> tuple[PciFunction, ...]: ...
    @property
    def kernel(self) -> _Kernel: ...
    @property
    def iommu(self) -> _Iommu: ...


class Comparison(Frozen):
    """How the computed groups of the present compare with those that sysfs shows."""

    result: Literal["equal", "quirk", "not-reproduced", "unknown"]
    details: tuple[str, ...] = ()
    """What differs, or what is not known, a line each."""


def present_options(model: _Model) -> Maybe[KernelOptions]:
    """Return the options of the running kernel; the IOMMU is on exactly where it shows units or groups."""
    if isinstance(model.kernel.running_cmdline, Unknown):
        return model.kernel.running_cmdline
    has_groups = any(isinstance(fn.iommu_group, int) for fn in model.pci)
    if isinstance(model.iommu.units, Unknown) and not has_groups:
        return model.iommu.units
    options = options_for(model, model.kernel.running_cmdline)
    is_on = has_groups or bool(known(model.iommu.units, ()))
    return replace(options, iommu_on=is_on, firmware_acs=_firmware_values(model.pci, options))


def options_for(model: _Model, cmdline: str) -> KernelOptions:
    """Return the options of this host's kernel with another command line."""
    table = model.iommu.firmware_table
    return KernelOptions.from_cmdline(
        cmdline,
        known(model.kernel.cpu_vendor, None),
        release=known(model.kernel.release, None),
        firmware_table=None if isinstance(table, Unknown) else table is not None,
    )


def _firmware_values(functions: Sequence[PciFunction], options: KernelOptions) -> Mapping[str, int]:
    """Where a parameter is in force now, the bits it leaves alone still are the firmware's."""
    tree = Tree(functions)
    rules = (*options.disable_acs_redir, *options.config_acs)
    found: dict[str, int] = {}
    for fn in functions if rules else ():
        state = acs_of(fn)
        if isinstance(state, AcsState) and any(rule.matches(fn, tree) for rule in rules):
            found[fn.bdf] = state.control
    return found


def compare_present(model: _Model) -> Comparison:
    """Compute the groups of the running kernel and compare them with sysfs.

    ``quirk``: only the kernel's own table of quirks explains them.  A future is worth computing
    after ``equal`` and ``quirk`` alone.
    """
    options = present_options(model)
    if isinstance(options, Unknown):
        return Comparison(result="unknown", details=(str(options),))
    actual = _present_groups(model.pci)
    if isinstance(actual, Unknown):
        return Comparison(result="unknown", details=(str(actual),))
    with_quirks = predict_groups(model.pci, options)
    if isinstance(with_quirks, Unknown):
        return Comparison(result="unknown", details=(str(with_quirks),))
    differing = _differences(with_quirks, actual)
    if differing:
        return Comparison(result="not-reproduced", details=differing)
    plain = predict_groups(model.pci, replace(options, use_quirks=False))
    if isinstance(plain, Unknown):
        return Comparison(result="equal")
    by_quirk = _differences(plain, actual)
    return Comparison(result="quirk" if by_quirk else "equal", details=by_quirk)


def _present_groups(functions: Sequence[PciFunction]) -> Maybe[dict[int, tuple[str, ...]]]:
    """The groups of sysfs by number; functions without a group are in none."""
    groups: dict[int, list[str]] = defaultdict(list)
    for fn in functions:
        if isinstance(fn.iommu_group, Unknown):
            return about(fn.iommu_group, fn, "its group")
        if fn.iommu_group is not None:
            groups[fn.iommu_group].append(fn.bdf)
    return {number: tuple(sorted(members, key=Bdf.parse)) for number, members in groups.items()}


def _differences(computed: Groups, actual: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    have, want = set(computed), set(actual.values())
    lines = [f"computed, not in sysfs: {' '.join(group)}" for group in sorted(have - want)]
    lines += [f"in sysfs, not computed: {' '.join(group)}" for group in sorted(want - have)]
    return tuple(lines)


def predict_numbers(model: _Model, options: KernelOptions) -> Maybe[dict[str, int]]:
    """Return the group number of each function under ``options``, by BDF.

    Offered only where the present is reproduced with its numbers.  Numbers stay allocation order:
    treat the answer as what to expect, and read it back after the reboot.
    """
    present = compare_present(model)
    if present.result not in ("equal", "quirk"):
        return Unknown(unknown="the present groups are not reproduced: " + "; ".join(present.details))
    future = predict_groups(model.pci, options)
    if future == ():
        return {}
    first = _first_number(model)
    if isinstance(future, Unknown):
        return future
    if isinstance(first, Unknown):
        return first
    return {bdf: first + index for index, group in enumerate(future) for bdf in group}


def _first_number(model: _Model) -> Maybe[int]:
    """The lowest group number of a PCI function, provided that all numbers follow the bus scan from it."""
    now = present_options(model)
    if isinstance(now, Unknown):
        return now
    actual, computed = _present_groups(model.pci), predict_groups(model.pci, now)
    if isinstance(actual, Unknown):
        return actual
    if isinstance(computed, Unknown):
        return computed
    if computed != tuple(actual[number] for number in sorted(actual)):
        return Unknown(unknown="the present group numbers are not in the order of the bus scan")
    if not actual:
        return Unknown(
            unknown="the IOMMU is off now, so it is not known which functions it will cover",
            supply="switch it on, reboot, and read the numbers then",
        )
    first = min(actual)
    if sorted(actual) != list(range(first, first + len(actual))):
        return Unknown(unknown="the present group numbers have gaps: other devices than PCI have groups too")
    return first
