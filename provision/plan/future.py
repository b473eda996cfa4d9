"""IOMMU groups as they will be after the plan's next boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.pci.grouping import (
    KernelOptions,
    compare_present,
    options_for,
    predict_groups,
    predict_numbers,
    present_options,
)
from provision.plan.boot_change import BootEdit

Groups = tuple[tuple[str, ...], ...]


def numbers_now(model: HostModel) -> dict[str, int | None]:
    """Return the present group of each function by BDF; functions whose group is not known are left out."""
    return {f.bdf: f.iommu_group for f in model.pci if not isinstance(f.iommu_group, Unknown)}


def groups_after(model: HostModel, boot: BootEdit) -> Maybe[Groups]:
    """Return the groups that the kernel will build with the command line of ``boot``."""
    options = _options(model, boot)
    if isinstance(options, Unknown):
        return options
    if options is None:
        return tuple(group.members for group in model.iommu.groups)
    present = compare_present(model)
    if present.result not in ("equal", "quirk"):
        return Unknown(
            unknown="the present groups are not reproduced ("
            + "; ".join(present.details[:3])
            + "), so no future is offered",
            supply="keep the IOMMU and ACS parameters of the kernel command line as they are, or send the capture",
        )
    return predict_groups(model.pci, options)


def numbers_after(model: HostModel, boot: BootEdit) -> Maybe[Mapping[str, int]]:
    """Return the number of each function's group after the next boot, by BDF."""
    options = _options(model, boot)
    if isinstance(options, Unknown):
        return options
    if options is None:
        return {bdf: number for bdf, number in numbers_now(model).items() if number is not None}
    return predict_numbers(model, options)


def _options(model: HostModel, boot: BootEdit) -> Maybe[KernelOptions | None]:
    """Return the kernel's options after the next boot, ``None`` where they stay what they are."""
    if isinstance(boot.configured, Unknown):
        # The files could not be read, and then they are not edited either.
        return None
    now = present_options(model)
    if isinstance(now, Unknown):
        return now
    after = options_for(model, boot.configured)
    same = replace(after, firmware_acs=now.firmware_acs) == now
    return None if same else after
