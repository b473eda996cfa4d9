"""The whole run against a real kernel: read, plan, apply, a real reboot, resume, roll back, a real reboot.

The host is Debian with GRUB and systemd.  Stand-ins: the GPU (QEMU devices with NVIDIA's ids), ``pvesh`` and
``pveversion`` (plain files below /etc/pve).  Real: the kernel, update-grub, update-initramfs, systemctl reboot,
udev, module loading, the IOMMU and its groups.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rk_lab import GPUS, Lab, differences, running_lab

from provision.capture.store import load
from provision.host.assemble import assemble

pytestmark = pytest.mark.realkernel


@pytest.fixture(scope="module")
def lab(host_image: Any, accel: str, tmp_path_factory: pytest.TempPathFactory, times: Any) -> Iterator[Lab]:
    with running_lab(host_image, accel, tmp_path_factory.mktemp("host-run"), times, "  iommu: pt") as lab:
        yield lab


def test_capture_topo_and_doctor_of_a_host_that_is_no_proxmox_node(lab: Lab) -> None:
    lab.pvectl("capture", "capture", "testhost", "-o", "plain.tar.gz")
    model = assemble(load(lab.folder / "plain.tar.gz"))
    assert model.proxmox.version is None
    assert model.boot.kind == "grub"
    assert [gpu.bdf for gpu in model.gpus()] == list(GPUS)

    topo = lab.pvectl("topo", "topo", "testhost").stdout
    assert all(bdf.removeprefix("0000:") in topo for bdf in GPUS)
    doctor = lab.pvectl("doctor", "doctor", "testhost", codes=(0, 7, 8))
    again = lab.pvectl("doctor from the capture", "doctor", "--from", "plain.tar.gz", codes=(0, 7, 8))
    assert doctor.returncode == again.returncode
    refused = lab.pvectl("plan without Proxmox", "plan", "testhost", codes=(1, 64))
    assert "VM" in refused.stderr + refused.stdout


def test_plan_apply_reboot_resume(lab: Lab) -> None:
    with lab.vm.session() as session:
        lab.text(session, "/usr/local/lib/pvectl-stand-ins/install")
        with lab.times.of("the host's own update-grub, before anything"):
            lab.text(session, "update-grub")
        lab.before = lab.snapshot(session)
        lab.menu = lab.text(session, "cat", "/boot/grub/grub.cfg")
        lab.boot_ids.append(lab.text(session, "cat", "/proc/sys/kernel/random/boot_id"))
        cmdline = lab.text(session, "cat", "/proc/cmdline")
        drivers = lab.drivers(session)
    assert "iommu=pt" not in cmdline
    assert {override for override, _ in drivers.values()} == {"(null)"}
    assert drivers["0000:01:00.1"][1] == "snd_hda_intel"

    lab.pvectl("plan", "plan", "testhost", "-o", "plan.json", codes=(0, 2))
    lab.pvectl("apply up to the reboot", "apply", "plan.json", "--yes", codes=(6,))
    with lab.vm.session() as session:
        assert lab.text(session, "cat", "/proc/sys/kernel/random/boot_id") == lab.boot_ids[0]
        assert lab.text(session, "cat", "/boot/grub/grub.cfg") == lab.menu, "the default entry stays as it is"
        assert "iommu=pt" in lab.text(session, "cat", "/boot/grub/custom.cfg")
        assert "next_entry=pvectl" in lab.text(session, "grub-editenv", "/boot/grub/grubenv", "list")
    lab.pvectl("apply --resume --reboot", "apply", "testhost", "--resume", "--reboot", "--yes")

    with lab.vm.session() as session:
        lab.boot_ids.append(lab.text(session, "cat", "/proc/sys/kernel/random/boot_id"))
        cmdline = lab.text(session, "cat", "/proc/cmdline")
        assert "iommu=pt" in lab.text(session, "cat", "/boot/grub/grub.cfg"), "confirmed: the default has it"
        assert session.run(("cat", "/boot/grub/custom.cfg")).rc != 0, "the entry for one boot is gone"
        drivers = lab.drivers(session)
        kind = lab.text(session, "cat", "/sys/bus/pci/devices/0000:03:00.0/iommu_group/type")
        vm = lab.text(session, "cat", "/etc/pve/nodes/testhost/qemu-server/100.conf")
        mapping = lab.text(session, "cat", "/etc/pve/mapping/pci.cfg")
    assert lab.boot_ids[1] != lab.boot_ids[0]
    assert "iommu=pt" in cmdline.split()
    assert kind.strip() == "identity"
    assert set(drivers.values()) == {("vfio-pci", "vfio-pci")}
    assert "hostpci0: " in vm
    assert "hostpci1: " in vm
    assert all(bdf in mapping or bdf.removesuffix(".0") in mapping for bdf in GPUS)


def test_plan_again_is_empty(lab: Lab) -> None:
    result = lab.pvectl("plan again", "plan", "testhost", "--output", "json")
    assert json.loads(result.stdout)["data"]["changes"] == []


def test_rollback_and_reboot_leave_the_host_as_it_was(lab: Lab) -> None:
    lab.pvectl("rollback --reboot", "rollback", "testhost", "--yes", "--reboot")
    with lab.vm.session() as session:
        if lab.text(session, "cat", "/proc/sys/kernel/random/boot_id") == lab.boot_ids[-1]:
            pytest.fail("the host did not reboot")
        cmdline = lab.text(session, "cat", "/proc/cmdline")
        drivers = lab.drivers(session)
        after = lab.snapshot(session)
        grub = lab.text(session, "cat", "/boot/grub/grub.cfg")
    assert "iommu=pt" not in cmdline
    assert grub == lab.menu
    assert {override for override, _ in drivers.values()} == {"(null)"}
    assert drivers["0000:01:00.1"][1] == "snd_hda_intel"
    assert differences(lab.before, after) == []


def test_rollback_all_leaves_no_file_of_ours(lab: Lab) -> None:
    lab.pvectl("rollback --all", "rollback", "testhost", "--all", "--yes")
    with lab.vm.session() as session:
        after = lab.snapshot(session)
    assert differences(lab.before, after) == []
    assert not [path for path in after if "pvectl" in path and "stand-ins" not in path]
