"""The whole run against a real kernel: read, plan, apply, a real reboot, resume, roll back, a real reboot.

The host is Debian with GRUB and systemd.  Stand-ins: the GPU (QEMU devices with NVIDIA's ids), ``pvesh`` and
``pveversion`` (plain files below /etc/pve).  Real: the kernel, update-grub, update-initramfs, systemctl reboot,
udev, module loading, the IOMMU and its groups.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rk_topology import port
from rk_vm import Hardware, Vm, build_stand_in, overlay_of

from provision.capture.store import load
from provision.host.assemble import assemble
from provision.remote.session import Session

pytestmark = pytest.mark.realkernel

GPUS = ("0000:01:00.0", "0000:02:00.0")
BOUND = ("0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:02:00.1")
HARDWARE = Hardware(
    devices=(
        *(port("rp1", 1, "addr=0x3"), port("rp2", 2, "addr=0x4"), port("rp3", 3, "addr=0x5")),
        "stand-in-gpu,bus=rp1,addr=0.0,multifunction=on",
        *("stand-in-gpu-audio,id=hda1,bus=rp1,addr=0.1", "hda-duplex,bus=hda1.0"),
        "stand-in-gpu,bus=rp2,addr=0.0,multifunction=on",
        *("stand-in-gpu-audio,id=hda2,bus=rp2,addr=0.1", "hda-duplex,bus=hda2.0"),
        "nvme,bus=rp3,drive=nv0,serial=nv0",
    ),
    blockdevs=("nv0",),
    needs_stand_in=True,
)
INVENTORY = """\
schema: pvectl.inventory/1
hosts:
  testhost:
    address: root@127.0.0.1:{port}
    ssh:
      identity_file: {key}
      known_hosts: {known_hosts}
      connect_timeout: 60
    vms:
      100:
        gpus: all
        start: false
policies:
  iommu: pt
"""
SNAPSHOT = """
import hashlib, json, os, sys
found = {}
for top in sys.argv[1:]:
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            row = [oct(info.st_mode), info.st_uid, info.st_gid]
            if os.path.islink(path):
                row.append(os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    row += [info.st_mtime_ns, hashlib.sha256(file.read()).hexdigest()]
            found[path] = row
print(json.dumps(found))
"""
GENERATED = re.compile(r"/boot/(initrd\.img-.*|grub/grub\.cfg|grub/grubenv)")


@dataclasses.dataclass
class Lab:
    """The running host, an inventory for it, and pvectl as users call it."""

    vm: Vm
    folder: Path
    times: Any
    before: dict[str, Any] = dataclasses.field(default_factory=dict)
    menu: str = ""
    boot_ids: list[str] = dataclasses.field(default_factory=list)

    def pvectl(self, what: str, *words: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "NO_COLOR": "1", "PVECTL_INVENTORY": str(self.folder / "pvectl.yaml")}
        with self.times.of(what):
            result = subprocess.run(
                [sys.executable, "-m", "provision.cli", *words],
                capture_output=True,
                text=True,
                cwd=self.folder,
                env={**environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
                timeout=1200,
                check=False,
            )
        name = re.sub(r"\W+", "-", what)
        (self.folder / f"{name}.out").write_text(result.stdout + "\n--- stderr\n" + result.stderr, "utf-8")
        assert result.returncode in codes, f"{words}: {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result

    def snapshot(self, session: Session) -> dict[str, Any]:
        """Mode, owner, time and content of every file that could matter."""
        roots = ("/etc", "/boot", "/usr/lib/udev", "/usr/lib/modprobe.d", "/var/lib/pvectl")
        result = session.python(SNAPSHOT.encode(), roots, timeout=120)
        assert result.rc == 0, result.stderr
        return dict(json.loads(result.stdout))

    def text(self, session: Session, *argv: str) -> str:
        result = session.run(argv, timeout=300)
        assert result.rc == 0, f"{argv}: {result.rc} {result.stderr!r}"
        return result.stdout.decode("utf-8", "replace")

    def drivers(self, session: Session) -> dict[str, tuple[str, str]]:
        """``driver_override`` and the driver that is bound, of each function that goes to the guest."""
        found = {}
        for bdf in BOUND:
            path = f"/sys/bus/pci/devices/{bdf}"
            override = self.text(session, "cat", f"{path}/driver_override").strip()
            driver = session.run(("readlink", f"{path}/driver")).stdout.decode().strip().rpartition("/")[2]
            found[bdf] = (override, driver)
        return found


@pytest.fixture(scope="module")
def lab(host_image: Any, accel: str, tmp_path_factory: pytest.TempPathFactory, times: Any) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("host-run")
    vm = Vm(
        host_image,
        HARDWARE,
        folder / "vm",
        accel=accel,
        disk=overlay_of(host_image, folder / "disk.qcow2"),
        stand_in=build_stand_in(folder),
    )
    vm.start()
    try:
        with times.of("systemd and GRUB: from power on to SSH"):
            vm.wait_ready()
        values = {"port": vm.port, "key": host_image.client_key, "known_hosts": vm.known_hosts}
        (folder / "pvectl.yaml").write_text(INVENTORY.format(**values), "utf-8")
        yield Lab(vm, folder, times)
    finally:
        vm.stop()


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
        assert "iommu=pt" in lab.text(session, "cat", "/boot/grub/grub.cfg")
    lab.pvectl("apply --resume --reboot", "apply", "testhost", "--resume", "--reboot", "--yes")

    with lab.vm.session() as session:
        lab.boot_ids.append(lab.text(session, "cat", "/proc/sys/kernel/random/boot_id"))
        cmdline = lab.text(session, "cat", "/proc/cmdline")
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
    assert _differences(lab.before, after) == []


def test_rollback_all_leaves_no_file_of_ours(lab: Lab) -> None:
    lab.pvectl("rollback --all", "rollback", "testhost", "--all", "--yes")
    with lab.vm.session() as session:
        after = lab.snapshot(session)
    assert _differences(lab.before, after) == []
    assert not [path for path in after if "pvectl" in path and "stand-ins" not in path]


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Paths that are not as before.

    Generated files are compared in their meaning elsewhere, the run's own records are meant to stay, and
    Proxmox' objects are written anew: equal in content, not in time.
    """
    names = sorted(path for path in {*before, *after} if _kept(before, path) != _kept(after, path))
    return [f"{path}: {before.get(path)} -> {after.get(path)}" for path in names if not GENERATED.fullmatch(path)]


def _kept(rows: dict[str, Any], path: str) -> Any:
    if path.startswith("/var/lib/pvectl"):
        return None
    row = rows.get(path)
    return [*row[:3], *row[4:]] if row and path.startswith("/etc/pve/") and len(row) > 4 else row
