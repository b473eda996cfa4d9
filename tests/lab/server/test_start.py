"""What a VM start does to the host: groups bound as a whole, devices held, guests reachable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import ConnectionRefused
from provision.lab import hardware
from provision.lab.guest_commands import shipped_probe
from provision.lab.supervisor import RunningLab, running

Repair = Callable[[RunningLab], None]
Reach = Callable[..., Any]


def _guest(lab: RunningLab, reach: Reach, vmid: int = 100) -> Any:
    for _ in range(300):
        try:
            return reach(lab, vmid)
        except ConnectionRefused:
            time.sleep(0.02)
    raise AssertionError("the guest does not come up")


def _host_devices(lab: RunningLab) -> dict[str, hardware.Device]:
    return {found.bdf: found for found in hardware.devices(lab.host.root)}


def test_a_start_binds_every_device_of_the_group_but_bridges(reach: Reach) -> None:
    with running("workstation-shared-nic") as lab:
        devices = _host_devices(lab)
        session = reach(lab)
        vmid = min(lab.machine.vms)
        shared = _gpu_beside_a_network_card(devices)
        assert session.run(("qm", "set", str(vmid), "--hostpci0", f"{shared},pcie=1", "--delete", "hostpci1")).rc == 0
        started = session.run(("qm", "start", str(vmid)))
        assert started.rc == 0, started.stderr
        held = lab.host.node.reserved()
        groups = {devices[bdf].group for bdf in held}
        after = _host_devices(lab)
        taken = {bdf for bdf, found in after.items() if found.group in groups and not found.is_bridge}
        assert all(after[bdf].driver == "vfio-pci" for bdf in taken)
        assert taken - set(held), "the shared group holds a device that the VM does not get, and it is gone too"
        assert any(found.driver != "vfio-pci" for bdf, found in after.items() if found.is_bridge)
        assert session.run(("qm", "stop", str(vmid))).rc == 0
        assert all(_host_devices(lab)[bdf].driver == "vfio-pci" for bdf in taken), "nothing is given back"
        assert lab.host.node.reserved() == {}


def _gpu_beside_a_network_card(devices: dict[str, hardware.Device]) -> str:
    cards = {found.group for found in devices.values() if found.class_code.startswith("0x0200")}
    return next(bdf for bdf, found in devices.items() if found.vendor == "10de" and found.group in cards)


def test_without_an_iommu_nothing_is_passed(reach: Reach) -> None:
    with running("epyc-8x-rtxpro6000", "iommu-off") as lab:
        session = reach(lab)
        entry = "id=10de:2bb5,node=pve1,path=0000:01:00.0,subsystem-id=10de:204e"
        made = session.run(("pvesh", "create", "/cluster/mapping/pci", "--id", "one", "--map", entry))
        assert made.rc == 0, made.stderr
        changed = session.run(
            (
                "qm",
                "set",
                "100",
                "--hostpci0",
                "mapping=one,pcie=1",
                "--delete",
                "hostpci1,hostpci2,hostpci3,hostpci4,hostpci5,hostpci6,hostpci7",
            )
        )
        assert changed.rc == 0, changed.stderr
        started = session.run(("qm", "start", "100"))
        assert started.rc == 255
        assert started.stderr == b"cannot prepare PCI pass-through, IOMMU not present\n"
        assert lab.host.node.reserved() == {}


def test_a_locked_vm_does_not_start(reach: Reach) -> None:
    with running("epyc-8x-rtxpro6000", "vm-locked") as lab:
        started = reach(lab).run(("qm", "start", "100"))
        assert (started.rc, started.stderr) == (255, b"VM is locked (backup)\n")


def test_a_guest_is_reachable_only_while_its_vm_runs(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    with pytest.raises(ConnectionRefused):
        reach(lab, 100)
    session = reach(lab)
    assert session.run(("qm", "start", "100")).rc == 0
    guest = _guest(lab, reach)
    assert guest.run(("hostname",)).stdout == b"llm\n"
    assert guest.host_key != session.host_key
    assert session.run(("qm", "shutdown", "100")).rc == 0
    for _ in range(200):
        if not lab.lab.guests.running:
            break
        time.sleep(0.01)
    with pytest.raises(ConnectionRefused):
        reach(lab, 100)


def _start_with(lab: RunningLab, reach: Reach, *options: str) -> Any:
    session = reach(lab)
    if options:
        done = session.run(("qm", "set", "100", *options))
        assert done.rc == 0, done.stderr
    done = session.run(("qm", "start", "100"))
    assert done.rc == 0, done.stderr
    return _guest(lab, reach)


def _probe(guest: Any) -> dict[str, Any]:
    done = guest.python(shipped_probe())
    assert done.rc == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_shipped_probe_sees_eight_gpus_with_cpu_host(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    seen = _probe(_start_with(lab, reach, "--cpu", "host"))
    assert len(seen["pci"]) == len(seen["proc"]) == len(seen["nvml"]["gpus"]) == len(seen["cuda"]["gpus"]) == 8
    assert {gpu["driver"] for gpu in seen["pci"]} == {"nvidia"}
    assert all(gpu["data"] is True for gpu in seen["cuda"]["gpus"])
    assert seen["virtualization"]["signature"] == "KVMKVMKVM"
    assert seen["module"]["open"] is True
    uuids = [gpu["uuid"] for gpu in seen["nvml"]["gpus"]]
    assert uuids == list(lab.machine.guests[100].gpu_uuids)
    assert seen["nvml"]["p2p"]["write"][0][:2] == ["X", "NS"]


def test_a_guest_with_too_small_a_window_loses_its_gpus(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    """x86-64-v2-AES has 40 address bits: OVMF makes room for 128 GiB, one GPU alone wants 256."""
    repair_mapping(lab)
    guest = _start_with(lab, reach)
    seen = _probe(guest)
    assert len(seen["pci"]) == 8
    assert all(sum(gpu["bar_bytes"]) == 0 and gpu["driver"] is None for gpu in seen["pci"])
    assert seen["nvml"]["gpus"] == []
    assert guest.run(("nvidia-smi", "-L")).stdout == b"No devices were found\n"


def test_a_clique_is_seen_in_the_guests_configuration_space(
    lab: RunningLab, reach: Reach, repair_mapping: Repair
) -> None:
    repair_mapping(lab)
    args = " ".join(f"-set device.hostpci{n}.x-nv-gpudirect-clique={n // 4}" for n in range(8))
    seen = _probe(_start_with(lab, reach, "--cpu", "host", "--args", args))
    assert [gpu["clique"] for gpu in seen["pci"]] == [0, 0, 0, 0, 1, 1, 1, 1]
    row = seen["nvml"]["p2p"]["write"][0]
    assert row == ["X", "OK", "OK", "OK", "NS", "NS", "NS", "NS"]


def test_a_hidden_hypervisor_gives_no_signature(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    seen = _probe(_start_with(lab, reach, "--cpu", "host,hidden=1"))
    assert seen["virtualization"] == {
        "cpu_flag": True,
        "signature": "",
        "dmi_vendor": "QEMU",
        "dmi_product": "Standard PC (Q35 + ICH9, 2009)",
    }


def test_a_guest_runs_no_other_python_than_the_probe(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    guest = _start_with(lab, reach)
    done = guest.python(shipped_probe() + b"\n# changed\n")
    assert done.rc == 126
    assert b"only the agent and the probe" in done.stderr
    assert guest.run(("rm", "-rf", "/")).rc == 127


def test_nvidia_smi_tells_what_people_paste(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    guest = _start_with(lab, reach, "--cpu", "host")
    assert guest.run(("nvidia-smi", "-L")).stdout.startswith(
        b"GPU 0: NVIDIA RTX PRO 6000 Blackwell Server Edition (UUID: GPU-"
    )
    assert b"\tGPU0\tGPU1" in guest.run(("nvidia-smi", "topo", "-m")).stdout
    assert b" GPU0\tX\tNS" in guest.run(("nvidia-smi", "topo", "-p2p", "w")).stdout
    assert b"595.58.03" in guest.run(("nvidia-smi", "-q")).stdout
    assert guest.run(("nvidia-smi", "--bogus")).rc == 2


def test_swapped_cards_keep_their_uuids(reach: Reach, repair_mapping: Repair) -> None:
    with running("epyc-8x-rtxpro6000", "gpu-swapped") as lab:
        repair_mapping(lab)
        seen = _probe(_start_with(lab, reach, "--cpu", "host"))
        first, second, *rest = lab.machine.guests[100].gpu_uuids
        assert [gpu["uuid"] for gpu in seen["nvml"]["gpus"]] == [second, first, *rest]


def test_a_reboot_stops_vms_and_frees_their_devices(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> None:
    repair_mapping(lab)
    _start_with(lab, reach)
    lab.reboot()
    assert lab.host.node.running() == []
    assert lab.host.node.reserved() == {}
    assert {found.driver for found in _host_devices(lab).values() if found.ids == "10de:2bb5"} != {"vfio-pci"}
