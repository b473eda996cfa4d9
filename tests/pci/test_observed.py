"""Groups that real kernels built.

The first host is Linux 6.12 in QEMU (q35, Intel IOMMU, a second root bus by pxb-pcie): the counts and the
groups named here were read from its sysfs under each command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.grouping import KernelOptions, compare_present, options_for, predict_groups, predict_numbers
from provision.pci.model import PciFunction

Make = Callable[..., PciFunction]
QEMU_ACS = 0x5F


def qemu_host(fn: Make) -> list[PciFunction]:
    """Root ports with ACS (one without), a switch without ACS, an expander bus with two more ports."""

    def port(bdf: str, acs: int | None = QEMU_ACS, root: str = "pci0000:00") -> PciFunction:
        return fn(bdf, "root-port", acs=acs, ids="1b36:000c", root=root)

    conventional = [
        *("0000:00:00.0", "0000:00:06.0", "0000:00:1b.0", "0000:00:1c.0", "0000:00:1e.0"),
        *("0000:00:1f.0", "0000:00:1f.2", "0000:00:1f.3"),
    ]
    switch = [fn("0000:03:00.0", "upstream-port", parent="0000:00:05.0")]
    for index in range(4):
        bdf = f"0000:04:{index:02x}.0"
        switch.append(fn(bdf, "downstream-port", parent="0000:03:00.0"))
        switch.append(fn(f"0000:{5 + index:02x}:00.0", parent=bdf))
    return [
        *(fn(bdf, None, root="pci0000:00") for bdf in conventional),
        port("0000:00:03.0"),
        port("0000:00:04.0", acs=None),
        port("0000:00:05.0"),
        fn("0000:01:00.0", parent="0000:00:03.0"),
        fn("0000:01:00.1", parent="0000:00:03.0"),
        fn("0000:02:00.0", parent="0000:00:04.0"),
        *switch,
        port("0000:80:00.0", root="pci0000:80"),
        port("0000:80:01.0", root="pci0000:80"),
        fn("0000:81:00.0", parent="0000:80:00.0", root="pci0000:80"),
        fn("0000:82:00.0", parent="0000:80:01.0", root="pci0000:80"),
    ]


class TestQemu:
    def groups(self, fn: Make, cmdline: str, **more: Any) -> tuple[tuple[str, ...], ...]:
        options = KernelOptions.from_cmdline(cmdline, "GenuineIntel", release="6.12.38+deb13-amd64", **more)
        predicted = predict_groups(qemu_host(fn), options)
        assert not isinstance(predicted, Unknown)
        return predicted

    def test_by_default(self, fn: Make) -> None:
        groups = self.groups(fn, "quiet")
        assert len(groups) == 19
        assert groups[2] == ("0000:00:04.0", "0000:02:00.0")
        assert ("0000:03:00.0",) in groups
        assert ("0000:04:00.0", "0000:05:00.0") in groups

    def test_off(self, fn: Make) -> None:
        assert self.groups(fn, "intel_iommu=off") == ()

    def test_redirect_off_for_one_port(self, fn: Make) -> None:
        cmdline = "iommu=pt pci=config_acs=xx000xx@0000:00:03.0"
        before, after = self.groups(fn, "quiet"), self.groups(fn, cmdline)
        assert len(after) == 18
        assert ("0000:00:03.0", "0000:01:00.0", "0000:01:00.1") in after
        number = {bdf: index for index, group in enumerate(before) for bdf in group}
        moved = {bdf: index for index, group in enumerate(after) for bdf in group}
        assert {number[bdf] - moved[bdf] for bdf in ("0000:03:00.0", "0000:05:00.0", "0000:82:00.0")} == {1}

    def test_redirect_off_for_all_root_ports(self, fn: Make) -> None:
        groups = self.groups(fn, "pci=disable_acs_redir=pci:1b36:000c")
        assert len(groups) == 11
        assert max(len(group) for group in groups) == 10


def read_log(text: str) -> tuple[dict[str, int], dict[int, str]]:
    """Group by BDF in the order of the log, and the bridge to each bus."""
    added = re.findall(r"pci (\S+): Adding to iommu group (\d+)", text)
    bridges = re.findall(r"pci (\S+): PCI bridge to \[bus ([0-9a-f]+)", text)
    return {bdf: int(number) for bdf, number in added}, {int(bus, 16): bdf for bdf, bus in bridges}


def as_functions(fn: Make, groups: dict[str, int], bridges: dict[int, str]) -> list[PciFunction]:
    """Functions whose ACS is what the log's groups call for; the order of numbers is left to the algorithm."""
    functions = []
    for bdf, number in groups.items():
        parent = bridges.get(int(bdf[5:7], 16))
        top = bdf
        while (above := bridges.get(int(top[5:7], 16))) is not None:
            top = above
        fields = {"parent": parent, "root": f"pci{top[:7]}", "iommu_group": number}
        buses = [bus for bus, bridge in bridges.items() if bridge == bdf]
        slot = {groups[other] for other in groups if other[:-2] == bdf[:-2]}
        if not buses:
            is_lone = parent is not None and len(slot) > 1
            functions.append(fn(bdf, "endpoint" if parent else None, acs=0x0C if is_lone else None, **fields))
            continue
        below = {groups[other] for other in groups if int(other[5:7], 16) == buses[0]}
        functions.append(fn(bdf, "root-port", acs=None if number in below else 0x5F, **fields))
    return functions


@pytest.mark.corpus
@pytest.mark.skipif("PVECTL_CORPUS" not in os.environ, reason="PVECTL_CORPUS names no folder")
def test_the_order_of_numbers_on_an_eight_unit_server(fn: Make) -> None:
    folder = Path(os.environ["PVECTL_CORPUS"])
    (log,) = folder.glob("dmesg-host/11-*")
    groups, bridges = read_log(log.read_text(encoding="utf-8", errors="replace"))
    functions = as_functions(fn, groups, bridges)
    model: Any = SimpleNamespace(
        pci=tuple(functions),
        kernel=SimpleNamespace(running_cmdline="quiet", cpu_vendor="AuthenticAMD", release=None),
        iommu=SimpleNamespace(units=("ivhd0",), firmware_table="IVRS"),
    )
    assert compare_present(model).result == "equal"
    assert predict_numbers(model, options_for(model, "quiet")) == groups
