"""Every check: passes, fails, and cannot decide where its fact is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.facts import Virtualization, parse_probe
from provision.host.model import Iommu, NetworkInterface, Vm
from provision.pve.session import CheckMessage
from provision.verify.checks import CHECKS, judge
from provision.verify.facts import ProofFacts

sys.path.insert(0, str(Path(__file__).resolve().parent))
import facts_builder as build

NONE = build.NOT_READ


def iommu(**changes: Any) -> ProofFacts:
    return build.facts(model=build.model(iommu=build.model().iommu.model_copy(update=changes)))


def host(**changes: Any) -> ProofFacts:
    return build.facts(model=build.model(**changes))


def guest(**changes: Any) -> ProofFacts:
    return build.facts(guests={100: build.guest(**changes)})


def matrix(read: str, nvlink: str = "NS") -> dict[str, Any]:
    return {
        "read": (("X", read), (read, "X")),
        "write": (("X", read), (read, "X")),
        "nvlink": (("X", nvlink), (nvlink, "X")),
    }


def nvml(**changes: Any) -> Any:
    known = build.guest().nvml
    assert not isinstance(known, Unknown)
    return tuple(gpu.model_copy(update=changes) for gpu in known)


def waiting(**changes: Any) -> ProofFacts:
    """A running VM 100 with options that wait for a cold start."""
    vm = Vm(vmid=100, node="pve1", name="v", status="running", config_text="", config={}, hostpci=(), **changes)
    return host(proxmox=build.model().proxmox.model_copy(update={"vms": (vm,)}))


def awake(value: bool | None) -> ProofFacts:
    return host(kernel=KERNEL.model_copy(update={"vfio_stays_awake": value}))


def d3cold(value: bool | None) -> ProofFacts:
    return host(pci=(GPU.model_copy(update={"d3cold_allowed": value}),))


def cards(*rows: tuple[Any, ...]) -> ProofFacts:
    """Network interfaces by name, address and own address; bridges are no cards."""
    return host(
        interfaces=tuple(
            NetworkInterface(
                name=name,
                bdf=None if name.startswith("vmbr") else "0000:01:00.0",
                mac=mac,
                uses=(),
                permanent_mac=own[0] if own else None,
            )
            for name, mac, *own in rows
        )
    )


def measured(name: str) -> ProofFacts:
    """A real guest's answer to a measurement, a fault on purpose taken for a real one."""
    text = (build.PROBE.parent / f"{name}.json").read_text("utf-8")
    return build.facts(guests={100: parse_probe(text, 100)})


LOST = (
    *build.guest().nvml[:1],  # type: ignore[index]
    build.guest().nvml[1].model_copy(update={"bdf": NONE}),  # type: ignore[index]
)
"""The driver has lost the second GPU: NVML still counts it."""
KERNEL = build.model().kernel
GPU = build.model().pci[0]
MAC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
VIRT = build.guest().virtualization
BAD = CheckMessage(severity="error", message="Invalid configuration: 'iommugroup' does not match\n")
TABLE: list[tuple[str, str, str, ProofFacts, str]] = [
    ("iommu-on", "host", "", build.facts(), "pass"),
    ("iommu-on", "host", "", iommu(units=()), "fail"),
    ("iommu-on", "host", "", iommu(groups=()), "fail"),
    ("iommu-on", "host", "", iommu(units=NONE), "undecided"),
    ("cmdline", "host", "iommu=pt !amd_iommu=on", build.facts(), "pass"),
    ("cmdline", "host", "iommu=pt !quiet", build.facts(), "fail"),
    ("cmdline", "host", "pci=realloc", build.facts(), "fail"),
    ("cmdline", "host", "x", host(kernel=KERNEL.model_copy(update={"running_cmdline": NONE})), "undecided"),
    ("driver", GPU.bdf, "vfio-pci", build.facts(), "pass"),
    ("driver", GPU.bdf, "vfio-pci", host(pci=(GPU.model_copy(update={"driver": None}),)), "fail"),
    ("driver", GPU.bdf, "vfio-pci", host(pci=()), "fail"),
    ("driver", GPU.bdf, "vfio-pci", host(pci=(GPU.model_copy(update={"driver": NONE}),)), "undecided"),
    ("d3cold", GPU.bdf, "0", d3cold(False), "pass"),
    ("d3cold", GPU.bdf, "0", d3cold(True), "fail"),
    ("d3cold", GPU.bdf, "0", host(pci=()), "fail"),
    ("d3cold", GPU.bdf, "0", d3cold(None), "undecided"),
    ("d3cold", GPU.bdf, "0", build.facts(), "undecided"),
    ("idle-d3", "host", "disabled", awake(True), "pass"),
    ("idle-d3", "host", "disabled", awake(False), "fail"),
    ("idle-d3", "host", "disabled", awake(None), "fail"),
    ("idle-d3", "host", "disabled", build.facts(), "undecided"),
    ("network-name", MAC, "nic0", cards(("nic0", MAC)), "pass"),
    ("network-name", MAC, "nic0", cards(("nic0", MAC), ("vmbr0", MAC)), "pass"),
    ("network-name", MAC, "nic0", cards(("nic0", OTHER, MAC), ("nic1", OTHER)), "pass"),
    ("network-name", MAC, "nic0", cards(("enp1s0", MAC)), "fail"),
    ("network-name", MAC, "nic0", cards(("nic0", OTHER)), "fail"),
    ("network-name", MAC, "nic0", cards(("vmbr0", MAC)), "fail"),
    ("network-name", MAC, "nic0", cards(("enp1s0", NONE)), "undecided"),
    ("network-name", MAC, "nic0", host(interfaces=NONE), "undecided"),
    ("mapping-valid", "mapping/gpu-0", "", build.facts(), "pass"),
    ("mapping-valid", "mapping/gpu-0", "", build.facts(mapping_checks={"gpu-0": (BAD,)}), "fail"),
    ("mapping-valid", "mapping/gpu-1", "", build.facts(), "fail"),
    ("mapping-valid", "mapping/gpu-0", "", build.facts(mapping_checks=NONE), "undecided"),
    ("vm-running", "vm/100", "", build.facts(), "pass"),
    ("vm-running", "vm/100", "", build.facts(vm_status={100: "stopped"}), "fail"),
    ("vm-running", "vm/100", "", build.facts(vm_status={}), "undecided"),
    ("vm-running", "vm/100", "", waiting(pending={"memory": "1024"}), "fail"),
    ("vm-running", "vm/100", "", waiting(pending_delete=("args",)), "fail"),
    ("vm-running", "vm/100", "", waiting(), "pass"),
    ("vm-running", "vm/100", "", waiting(pending=NONE), "undecided"),
    ("vm-running", "vm/100", "", host(proxmox=build.model().proxmox.model_copy(update={"vms": NONE})), "undecided"),
    ("guest-hypervisor", "vm/100", "", build.facts(), "pass"),
    ("guest-hypervisor", "vm/100", "", guest(virtualization=VIRT.model_copy(update={"signature": "x"})), "fail"),
    (
        "guest-hypervisor",
        "vm/100",
        "",
        guest(virtualization=Virtualization(cpu_flag=False, signature=None, dmi_vendor="Dell", dmi_product="R760")),
        "fail",
    ),
    ("guest-hypervisor", "vm/100", "", guest(virtualization=VIRT.model_copy(update={"signature": NONE})), "undecided"),
    ("guest-gpus", "vm/100", "2", build.facts(), "pass"),
    ("guest-gpus", "vm/100", "8", build.facts(), "fail"),
    ("guest-gpus", "vm/100", "2", guest(proc=()), "fail"),
    ("guest-gpus", "vm/100", "2", guest(nvml=NONE), "undecided"),
    ("guest-gpus", "vm/100", "2", guest(nvml=LOST), "fail"),
    ("guest-gpus", "vm/100", "2", guest(nvml=Unknown(unknown="hang: no answer in 60 s")), "fail"),
    ("guest-gpus", "vm/100", "2", build.facts(guests={}), "undecided"),
    ("guest-gpus", "vm/100", "2", build.facts(guests={100: NONE}), "undecided"),
    ("guest-gsp", "vm/100", "", build.facts(), "pass"),
    ("guest-gsp", "vm/100", "", guest(nvml=nvml(gsp_version="570.1")), "fail"),
    ("guest-gsp", "vm/100", "", guest(nvml=nvml(gsp_enabled=False)), "fail"),
    ("guest-gsp", "vm/100", "", guest(nvml=()), "fail"),
    ("guest-gsp", "vm/100", "", guest(nvml=nvml(gsp_version=NONE)), "undecided"),
    ("guest-gsp", "vm/100", "", guest(driver=NONE), "undecided"),
    ("guest-cuda", "vm/100", "2", build.facts(), "pass"),
    ("guest-cuda", "vm/100", "8", build.facts(), "fail"),
    ("guest-cuda", "vm/100", "2", guest(cuda=Unknown(unknown="hang: no answer in 60 s")), "fail"),
    ("guest-cuda", "vm/100", "2", guest(cuda=Unknown(unknown="missing: libcuda.so.1")), "undecided"),
    ("guest-p2p", "vm/100", "off", build.facts(), "pass"),
    ("guest-p2p", "vm/100", "off", guest(p2p=matrix("NS")), "pass"),
    ("guest-p2p", "vm/100", "off", guest(p2p=matrix("OK")), "fail"),
    ("guest-p2p", "vm/100", "off", guest(p2p=matrix("U")), "undecided"),
    ("guest-p2p", "vm/100", "off", guest(p2p=NONE), "undecided"),
    ("guest-p2p", "vm/100", "prove", guest(p2p=matrix("OK")), "undecided"),
    ("guest-p2p", "vm/100", "prove", guest(p2p=matrix("CNS")), "undecided"),
    ("guest-p2p", "vm/100", "prove", measured("p2p-quick"), "pass"),
    ("guest-p2p", "vm/100", "prove", measured("p2p-private-copy"), "fail"),
    ("guest-p2p", "vm/100", "prove", measured("p2p-hang"), "fail"),
    ("guest-p2p", "vm/100", "prove", measured("nccl-hang"), "fail"),
    ("guest-p2p", "vm/100", "prove", build.facts(guests={100: NONE}), "undecided"),
    ("guest-p2p", "vm/100", "off", guest(p2p={"read": (("X",),), "write": (("X",),), "nvlink": (("X",),)}), "pass"),
]


@pytest.mark.parametrize(("check", "subject", "expected", "facts", "state"), TABLE)
def test_outcome(check: str, subject: str, expected: str, facts: ProofFacts, state: str) -> None:
    judgement = judge(facts, build.expect(check, subject, expected))
    assert judgement.state == state, judgement
    assert judgement.text
    assert state == "pass" or judgement.hint or state == "undecided"


@pytest.mark.parametrize("name", [name for name, _judge in CHECKS])
def test_every_check_has_all_three_outcomes_and_a_page(name: str) -> None:
    states = {state for check, _s, _e, _f, state in TABLE if check == name}
    assert states == {"pass", "fail", "undecided"}
    module = next(check for key, check in CHECKS if key == name).__module__
    page = sys.modules[module].__doc__
    assert page
    assert module.endswith(name.replace("-", "_"))


def test_an_unknown_check_is_never_a_pass() -> None:
    assert judge(build.facts(), build.expect("from-the-future")).state == "undecided"


def test_no_iommu_units_known_but_off() -> None:
    off = Iommu(units=(), firmware_table="IVRS", groups=())
    assert judge(build.facts(model=build.model(iommu=off)), build.expect("iommu-on", "host")).state == "fail"
