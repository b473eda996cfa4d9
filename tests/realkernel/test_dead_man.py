"""A boot without network that the dead-man brings back: nobody can confirm, and the host mends itself.

The change itself is the cause: interfaces get names by their address, and this host's network is set up by a file
that pvectl does not edit and that knows the old name.  Real: the kernel, GRUB, udev and its .link files, systemd's
timer, update-grub, update-initramfs, both reboots.  Stand-ins as in the other run: GPUs, ``pvesh``, ``pveversion``.
What happened in the boot that nobody could reach is read from the serial console and from the run's journal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rk_lab import Lab, differences, running_lab
from rk_vm import MAC

from provision.remote.session import Session

pytestmark = pytest.mark.realkernel

MINUTES = 2
POLICIES = f"""\
  iommu: pt
  boot:
    confirm_within: {MINUTES}m
  network:
    pin: always
"""
LEFT = re.compile(
    r"/etc/systemd/system/(pvectl-deadman\.(service|timer)|timers\.target\.wants)|"
    r"/etc/pve/(mapping/pci\.cfg|nodes/testhost/qemu-server/100\.conf)"
)
"""What a rollback still has to undo: the dead-man's own units, and Proxmox objects, which no boot reads."""
PREPARE = f"""
import os, sys
name, = [n for n in os.listdir("/sys/class/net") if open("/sys/class/net/" + n + "/address").read().strip() == "{MAC}"]
network = "/etc/systemd/network/10-management.network"
with open(network) as file:
    text = file.read()
with open(network, "w") as file:
    file.write(text.replace("MACAddress={MAC}", "Name=" + name))
os.makedirs("/etc/network", exist_ok=True)
with open("/etc/network/interfaces", "w") as file:
    file.write("# Not what brings the network up here.\\nauto " + name + "\\niface " + name + " inet manual\\n")
with open("/usr/local/sbin/witness", "w") as file:
    file.write('''#!/bin/sh
sleep 20
say() {{ echo "witness $(cat /proc/sys/kernel/random/boot_id): $*" >/dev/ttyS0; }}
say "names $(ls -m /sys/class/net)"
say "addresses $(ip -4 -brief address | tr -s ' ' | tr '\\\\n' ';')"
say "cmdline $(cat /proc/cmdline)"
''')
os.chmod("/usr/local/sbin/witness", 0o755)
with open("/etc/systemd/system/witness.service", "w") as file:
    file.write("[Unit]\\nAfter=network.target ssh.service\\n[Service]\\nExecStart=/usr/local/sbin/witness\\n"
               "[Install]\\nWantedBy=multi-user.target\\n")
print(name)
"""


@pytest.fixture(scope="module")
def lab(host_image: Any, accel: str, tmp_path_factory: pytest.TempPathFactory, times: Any) -> Iterator[Lab]:
    with running_lab(host_image, accel, tmp_path_factory.mktemp("dead-man"), times, POLICIES) as lab:
        yield lab


def prepare(lab: Lab, session: Session) -> str:
    """Make the network hang on the interface's name, and let every boot tell of itself.  Returns the name."""
    lab.text(session, "/usr/local/lib/pvectl-stand-ins/install")
    done = session.python(PREPARE.encode(), (), timeout=60)
    assert done.rc == 0, done.stderr
    lab.text(session, "systemctl", "enable", "witness.service")
    with lab.times.of("the host's own update-grub and update-initramfs, before anything"):
        lab.text(session, "update-grub")
        lab.text(session, "update-initramfs", "-u", "-k", "all")
    return done.stdout.decode().strip()


def early_files(lab: Lab, session: Session) -> list[str]:
    """What the early boot's image holds: mode, size and name of each file."""
    release = lab.text(session, "uname", "-r").strip()
    rows = lab.text(session, "lsinitramfs", "-l", f"/boot/initrd.img-{release}").splitlines()
    return sorted(" ".join((*row.split()[:1], *row.split()[4:5], *row.split()[8:])) for row in rows)


def witness(lab: Lab, boot: str, what: str) -> str:
    """What a boot said of itself on the serial console."""
    found = re.findall(rf"witness {boot}: {what} ([^\r\n]*)", lab.vm.console())
    assert found, f"nothing about {what} of boot {boot}: {lab.vm.console()[-3000:]}"
    return str(found[-1])


def journal(lab: Lab, session: Session) -> list[dict[str, Any]]:
    (path,) = lab.text(session, "sh", "-c", "ls /var/lib/pvectl/runs/*/journal.jsonl | head -n 1").split()
    return [json.loads(line)["data"] for line in lab.text(session, "cat", path).splitlines()]


@pytest.fixture(scope="module")
def brought_back(lab: Lab) -> dict[str, Any]:
    """Apply the change that costs the network, and stay away until the host is reachable again."""
    with lab.vm.session() as session:
        name = prepare(lab, session)
        seen = {"name": name, "before": lab.snapshot(session), "early": early_files(lab, session)}
        seen["menu"] = lab.text(session, "cat", "/boot/grub/grub.cfg")
        seen["cmdline"] = lab.text(session, "cat", "/proc/cmdline")
        seen["first"] = lab.boot_id(session)
    plan = lab.pvectl("plan", "plan", "testhost", "-o", "plan.json", codes=(0, 2)).stdout
    assert f"now {name}" in plan
    seen["apply"] = lab.pvectl(
        "apply --reboot: a boot without network, the dead-man, another boot",
        *("apply", "plan.json", "--yes", "--reboot"),
        codes=(5,),
    )
    with lab.vm.session() as session:
        seen["last"] = lab.boot_id(session)
        seen["after"] = lab.snapshot(session)
        seen["early after"] = early_files(lab, session)
        seen["menu after"] = lab.text(session, "cat", "/boot/grub/grub.cfg")
        seen["cmdline after"] = lab.text(session, "cat", "/proc/cmdline")
        seen["drivers"] = lab.drivers(session)
        seen["journal"] = journal(lab, session)
    return seen


def test_the_changed_boot_had_no_network_and_the_next_one_has(lab: Lab, brought_back: dict[str, Any]) -> None:
    told = {event["did"]: event for event in brought_back["journal"] if event["event"] == "dead-man"}
    middle = told["restored"]["boot_id"]
    assert len({brought_back["first"], middle, brought_back["last"]}) == 3, "one reboot into it, one out of it"
    assert "nic0" in witness(lab, middle, "names")
    assert "10.0.2.15" not in witness(lab, middle, "addresses")
    assert "iommu=pt" in witness(lab, middle, "cmdline").split()
    with lab.vm.session() as session:
        assert brought_back["name"] in lab.text(session, "ls", "/sys/class/net").split()
        assert lab.boot_id(session) == brought_back["last"]


def test_the_dead_man_restored_every_file(lab: Lab, brought_back: dict[str, Any]) -> None:
    left = differences(brought_back["before"], brought_back["after"])
    assert [row for row in left if not LEFT.match(row)] == []
    assert brought_back["menu after"] == brought_back["menu"]
    assert brought_back["early after"] == brought_back["early"]
    assert brought_back["cmdline after"] == brought_back["cmdline"]
    assert {override for override, _ in brought_back["drivers"].values()} == {"(null)"}


def test_apply_said_what_the_dead_man_did(lab: Lab, brought_back: dict[str, Any]) -> None:
    said = brought_back["apply"].stderr
    assert f"nobody confirmed the new boot set-up within {MINUTES} minutes" in said
    assert "the previous boot set-up is restored" in said
    assert "pvectl rollback" in said
    assert "waiting for the new boot" in said


def test_the_dead_man_is_disarmed_and_the_host_stays_up(lab: Lab, brought_back: dict[str, Any]) -> None:
    with lab.vm.session() as session:
        for _ in range(60):  # its first tick comes a minute after the boot
            if session.run(("systemctl", "is-enabled", "pvectl-deadman.timer")).stdout.strip() == b"disabled":
                break
            lab.text(session, "sleep", "5")
        else:
            pytest.fail("the dead-man is still armed")
        told = [event["did"] for event in journal(lab, session) if event["event"] == "dead-man"]
        assert lab.boot_id(session) == brought_back["last"]
        notes = str(journal(lab, session))
    assert told == ["restored", "mappings"]
    assert "mappings that VMs use by now stay: gpu-0, gpu-1" in notes


def test_doctor_and_apply_name_the_run_that_the_dead_man_took_back(lab: Lab, brought_back: dict[str, Any]) -> None:
    doctor = lab.pvectl("doctor after the dead-man", "doctor", "testhost", codes=(0, 7, 8)).stdout
    assert "dead-man" in doctor
    again = lab.pvectl("apply --resume after the dead-man", "apply", "testhost", "--resume", "--yes", codes=(5,))
    assert "the previous boot set-up is restored" in again.stderr


def test_rollback_after_the_dead_man_leaves_nothing_to_do(lab: Lab, brought_back: dict[str, Any]) -> None:
    lab.pvectl("rollback after the dead-man", "rollback", "testhost", "--yes")
    with lab.vm.session() as session:
        after = lab.snapshot(session)
        assert lab.boot_id(session) == brought_back["last"], "the previous set-up runs already"
    assert differences(brought_back["before"], after) == []
