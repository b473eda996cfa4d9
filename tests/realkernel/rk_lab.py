"""The running test host as the tests of whole runs use it: hardware, an inventory, pvectl as users call it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rk_topology import port
from rk_vm import Hardware, Vm, build_stand_in, overlay_of

from provision.remote.session import Session

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
{policies}
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
                timeout=3000,
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

    def boot_id(self, session: Session) -> str:
        return self.text(session, "cat", "/proc/sys/kernel/random/boot_id").strip()

    def drivers(self, session: Session) -> dict[str, tuple[str, str]]:
        """``driver_override`` and the driver that is bound, of each function that goes to the guest."""
        found = {}
        for bdf in BOUND:
            path = f"/sys/bus/pci/devices/{bdf}"
            override = self.text(session, "cat", f"{path}/driver_override").strip()
            driver = session.run(("readlink", f"{path}/driver")).stdout.decode().strip().rpartition("/")[2]
            found[bdf] = (override, driver)
        return found


@contextlib.contextmanager
def running_lab(image: Any, accel: str, folder: Path, times: Any, policies: str) -> Iterator[Lab]:
    """Boot the host through GRUB on a disk of its own; ``policies`` is YAML below that key of the inventory."""
    vm = Vm(
        image,
        HARDWARE,
        folder / "vm",
        accel=accel,
        disk=overlay_of(image, folder / "disk.qcow2"),
        stand_in=build_stand_in(folder),
    )
    vm.start()
    try:
        with times.of("systemd and GRUB: from power on to SSH"):
            vm.wait_ready()
        values = {"port": vm.port, "key": image.client_key, "known_hosts": vm.known_hosts, "policies": policies}
        (folder / "pvectl.yaml").write_text(INVENTORY.format(**values), "utf-8")
        yield Lab(vm, folder, times)
    finally:
        vm.stop()


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
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
