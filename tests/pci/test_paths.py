"""Path classes, redirects and the P2P forecast, on fabrics small enough to see through."""

from __future__ import annotations

from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.forecast import HostFacts, PairForecast, forecast
from provision.pci.model import AcsState, ConfigSpace, PciFunction, PortType
from provision.pci.paths import GpuPath, gpu_paths

DARK = Unknown(unknown="not read")
PRO, GEFORCE, STRANGE = 0x2BB5, 0x2684, 0x0001


def config(port: PortType, acs: Any) -> ConfigSpace:
    return ConfigSpace(
        length=4096, header_type=1, port_type=port, acs=acs, dsn=None, has_flr=False, sriov_total_vfs=None, rebar=False,
        clique=None,
    )  # fmt: skip


def port(bdf: str, parent: str | None, root: str, kind: PortType = "root-port", acs: Any = 0x1D) -> PciFunction:
    state = AcsState(offset=0x2A0, capability=0x5F, control=acs) if isinstance(acs, int) else acs
    return PciFunction(
        bdf=bdf, vendor=0x1022, device=1, class_code=0x060400, parent=parent, root=root, config=config(kind, state)
    )


def gpu(bdf: str, parent: str | None, root: str, **fields: Any) -> PciFunction:
    values = {"vendor": 0x10DE, "device": PRO, "class_code": 0x030200, "numa_node": 0, "iommu_unit": "ivhd0"} | fields
    return PciFunction(bdf=bdf, parent=parent, root=root, **values)


def switch(root: str, bus: int, acs: Any = 0x1D, **fields: Any) -> tuple[list[PciFunction], list[PciFunction]]:
    """A root port, a switch below it, two GPUs behind the switch."""
    at = [f"0000:{bus + step:02x}" for step in range(5)]
    ports = [
        port(f"{at[0]}:01.1", None, root),
        port(f"{at[1]}:00.0", f"{at[0]}:01.1", root, "upstream-port", None),
        port(f"{at[2]}:00.0", f"{at[1]}:00.0", root, "downstream-port", acs),
        port(f"{at[2]}:01.0", f"{at[1]}:00.0", root, "downstream-port", acs),
    ]
    cards = [gpu(f"{at[3 + index]}:00.0", f"{at[2]}:0{index}.0", root, **fields) for index in range(2)]
    return ports, cards


def direct(root: str, bus: int, slot: int = 1, **fields: Any) -> tuple[PciFunction, PciFunction]:
    above = f"0000:{bus:02x}:{slot:02x}.1"
    return port(above, None, root), gpu(f"0000:{bus + slot:02x}:00.0", above, root, **fields)


def pair(a: PciFunction, b: PciFunction, functions: list[PciFunction], nodes: Any = (0, 1)) -> GpuPath:
    paths = gpu_paths([a, b], functions, nodes)
    assert len(paths) == 2
    return paths[0]


def test_one_switch_is_pix_and_its_redirects_are_named() -> None:
    ports, (a, b) = switch("pci0000:00", 0)
    path = pair(a, b, [*ports, a, b])
    assert (path.path, path.common, path.same_socket) == ("PIX", "0000:01:00.0", True)
    assert isinstance(path.requests, tuple)
    assert isinstance(path.completions, tuple)
    assert [(port.port, port.bits) for port in path.requests] == [("0000:02:00.0", ("RR",))]
    assert [(port.port, port.bits) for port in path.completions] == [("0000:02:01.0", ("CR",))]
    assert path.is_redirected is True


def test_a_switch_without_redirect() -> None:
    ports, (a, b) = switch("pci0000:00", 0, acs=0x11)
    path = pair(a, b, [*ports, a, b])
    assert (path.requests, path.completions, path.is_redirected) == ((), (), False)


def test_a_port_that_cannot_be_read_hides_the_answer() -> None:
    ports, (a, b) = switch("pci0000:00", 0, acs=DARK)
    path = pair(a, b, [*ports, a, b])
    assert path.path == "PIX"
    assert isinstance(path.is_redirected, Unknown)


def test_two_levels_of_switches_are_pxb() -> None:
    root = "pci0000:00"
    top = [
        port("0000:00:01.1", None, root),
        port("0000:01:00.0", "0000:00:01.1", root, "upstream-port", None),
        port("0000:02:00.0", "0000:01:00.0", root, "downstream-port"),
        port("0000:02:01.0", "0000:01:00.0", root, "downstream-port"),
        port("0000:03:00.0", "0000:02:00.0", root, "upstream-port", None),
        port("0000:04:00.0", "0000:03:00.0", root, "downstream-port"),
        port("0000:06:00.0", "0000:02:01.0", root, "upstream-port", None),
        port("0000:07:00.0", "0000:06:00.0", root, "downstream-port"),
    ]
    a, b = gpu("0000:05:00.0", "0000:04:00.0", root), gpu("0000:08:00.0", "0000:07:00.0", root)
    path = pair(a, b, [*top, a, b])
    assert (path.path, path.common) == ("PXB", "0000:01:00.0")
    assert isinstance(path.requests, tuple)
    assert [port.port for port in path.requests] == ["0000:04:00.0", "0000:02:00.0"]


@pytest.mark.parametrize(
    ("root", "numa", "nodes", "expected", "socket"),
    [
        ("pci0000:00", 0, (0, 1), "PHB", True),
        ("pci0000:40", 0, (0, 1), "NODE", True),
        ("pci0000:40", 1, (0, 1), "SYS", None),
        ("pci0000:40", None, (0,), "NODE", True),
        ("pci0000:40", None, (0, 1), None, None),
        ("pci0000:40", DARK, (0, 1), None, None),
    ],
)
def test_between_root_ports(root: str, numa: Any, nodes: Any, expected: str | None, socket: bool | None) -> None:
    above_a, a = direct("pci0000:00", 0)
    above_b, b = direct(root, 0x40, 2, numa_node=numa, iommu_unit="ivhd1")
    path = pair(a, b, [above_a, a, above_b, b], nodes)
    assert path.path == expected if expected else isinstance(path.path, Unknown)
    assert path.same_socket is socket if socket else isinstance(path.same_socket, Unknown)
    assert path.iommu_units == ("ivhd0", "ivhd1")
    assert (path.common, path.is_redirected) == (None, False)


def test_a_missing_bridge_leaves_nothing_known() -> None:
    _, a = direct("pci0000:00", 0)
    above_b, b = direct("pci0000:00", 0, 2)
    path = pair(a, b, [a, above_b, b])
    assert isinstance(path.path, Unknown)
    assert isinstance(path.common, Unknown)
    assert isinstance(path.is_redirected, Unknown)
    told = told_of(path, a, b)
    assert (told.vm.verdict, told.bare_metal.verdict) == ("unknown", "unknown")


def told_of(
    path: GpuPath, a: PciFunction, b: PciFunction, *, vendor: Any = "AuthenticAMD", iommu: Any = True,
    domain: Any = "identity",
) -> PairForecast:  # fmt: skip
    facts = HostFacts(cpu_vendor=vendor, iommu_is_on=iommu, domain_types={a.bdf: domain, b.bdf: domain})
    return forecast(path, {a.bdf: a, b.bdf: b}, facts)


def far(**fields: Any) -> tuple[GpuPath, PciFunction, PciFunction]:
    above_a, a = direct("pci0000:00", 0, **fields)
    above_b, b = direct("pci0000:40", 0x40, 2, numa_node=1)
    return pair(a, b, [above_a, a, above_b, b]), a, b


def near(acs: Any = 0x1D) -> tuple[GpuPath, PciFunction, PciFunction]:
    ports, (a, b) = switch("pci0000:00", 0, acs=acs)
    return pair(a, b, [*ports, a, b]), a, b


def verdicts(told: PairForecast) -> tuple[str, str, str]:
    return told.vm.verdict, told.container.verdict, told.bare_metal.verdict


def test_amd_across_sockets_is_grantable_and_never_promised() -> None:
    assert verdicts(told_of(*far())) == ("grantable", "likely", "likely")
    assert "prove it" in told_of(*far()).vm.reasons[0]


def test_geforce_never() -> None:
    assert verdicts(told_of(*far(device=GEFORCE))) == ("no", "no", "no")


def test_a_model_that_is_not_listed_may_be_a_geforce() -> None:
    assert verdicts(told_of(*far(device=STRANGE))) == ("unknown", "unknown", "unknown")


def test_virtual_functions_never() -> None:
    assert verdicts(told_of(*far(physfn="0000:01:00.0"))) == ("no", "no", "no")


@pytest.mark.parametrize("vendor", ["GenuineIntel", "HygonGenuine", DARK])
def test_other_platforms_are_unknown(vendor: Any) -> None:
    assert verdicts(told_of(*far(), vendor=vendor)) == ("unknown", "unknown", "unknown")


def test_intel_inside_a_switch_without_redirect_is_known_on_the_host_alone() -> None:
    assert verdicts(told_of(*near(0x11), vendor="GenuineIntel")) == ("no", "likely", "likely")
    assert verdicts(told_of(*near(0x1D), vendor="GenuineIntel")) == ("unknown", "unknown", "unknown")


def test_redirect_is_slow_on_the_host_and_needed_in_a_vm() -> None:
    assert verdicts(told_of(*near(0x1D))) == ("grantable", "slow", "slow")
    assert verdicts(told_of(*near(0x11))) == ("no", "likely", "likely")
    assert verdicts(told_of(*near(DARK))) == ("unknown", "unknown", "unknown")


def test_translation_costs_on_the_host() -> None:
    assert verdicts(told_of(*far(), domain="DMA-FQ")) == ("grantable", "slow", "slow")
    assert verdicts(told_of(*far(), domain=DARK)) == ("grantable", "unknown", "unknown")


def test_without_an_iommu_there_is_no_passthrough() -> None:
    assert verdicts(told_of(*far(), iommu=False)) == ("no", "likely", "likely")
    assert told_of(*far(), iommu=DARK).vm.verdict == "unknown"
