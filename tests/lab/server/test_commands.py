"""Commands of the host: their effects on the root folder, their texts, their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.lab import commands, esp
from provision.lab.commands.answer import Answer
from provision.lab.commands.systemd import wanted_at_boot
from provision.lab.supervisor import RunningLab, running


def run(lab: RunningLab, *argv: str) -> Answer:
    async def on_loop() -> Answer:
        return commands.run(lab.host, argv)

    return lab.call(on_loop())


def test_update_grub_writes_what_the_defaults_and_snippets_say(lab: RunningLab) -> None:
    (lab.root / "etc/default/grub.d/60-x.cfg").write_text(
        'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n'
    )
    done = run(lab, "update-grub")
    assert done.rc == 0
    assert done.err.startswith("Generating grub configuration file ...\nFound linux image: /boot/vmlinuz-")
    assert done.err.endswith("done\n")
    assert "quiet amd_iommu=on iommu=pt" in (lab.root / "boot/grub/grub.cfg").read_text()
    assert "iommu=pt" not in (lab.root / "proc/cmdline").read_text(), "it counts from the next boot on"
    lab.reboot()
    assert "iommu=pt" in (lab.root / "proc/cmdline").read_text()


def test_update_grub_with_an_open_quote_fails_and_keeps_the_old_configuration(lab: RunningLab) -> None:
    before = (lab.root / "boot/grub/grub.cfg").read_bytes()
    (lab.root / "etc/default/grub.d/99.cfg").write_text('GRUB_CMDLINE_LINUX="open\n')
    done = run(lab, "/usr/sbin/update-grub")
    assert done.rc != 0
    assert "/etc/default/grub.d/99.cfg: 1: Syntax error: Unterminated quoted string" in done.err
    assert (lab.root / "boot/grub/grub.cfg").read_bytes() == before


def test_update_initramfs_takes_a_snapshot_of_the_module_settings(lab: RunningLab) -> None:
    (lab.root / "etc/modprobe.d/vfio.conf").write_text("options vfio-pci ids=10de:2bb5\n")
    done = run(lab, "update-initramfs", "-u", "-k", "all")
    assert done.rc == 0
    release = (lab.root / "proc/sys/kernel/osrelease").read_text().strip()
    assert f"update-initramfs: Generating /boot/initrd.img-{release}\n" in done.out
    assert "No /etc/kernel/proxmox-boot-uuids found, skipping ESP sync." in done.out
    image = json.loads((lab.root / f"boot/initrd.img-{release}").read_text())
    assert image["modprobe.d"]["vfio.conf"] == "options vfio-pci ids=10de:2bb5\n"
    assert run(lab, "update-initramfs").rc == 1


@pytest.mark.parametrize("machine", ["epyc-8x-rtxpro6000", "desktop-single-gpu"])
def test_the_hosts_own_programs_write_what_was_installed(machine: str) -> None:
    with running(machine) as lab:
        paths = [lab.root / "boot/grub/grub.cfg", *sorted((lab.root / "boot").glob("initrd.img-*"))]
        before = [(path.read_bytes(), path.stat().st_mode) for path in paths]
        assert run(lab, "update-grub").rc == 0
        assert run(lab, "update-initramfs", "-u", "-k", "all").rc == 0
        assert [(path.read_bytes(), path.stat().st_mode) for path in paths] == before


def test_every_file_of_the_cluster_has_one_mode(shared_lab: RunningLab) -> None:
    found = {p: p.stat().st_mode & 0o777 for p in (shared_lab.root / "etc/pve").rglob("*") if p.is_file()}
    assert len(found) > 5
    assert {p: mode for p, mode in found.items() if mode != (0o600 if "/priv/" in str(p) else 0o640)} == {}


def test_proxmox_boot_tool_without_its_file(shared_lab: RunningLab) -> None:
    done = run(shared_lab, "proxmox-boot-tool", "status")
    assert (done.rc, done.err) == (2, "E: /etc/kernel/proxmox-boot-uuids does not exist.\n")
    assert run(shared_lab, "proxmox-boot-tool", "status", "--quiet") == Answer(2)
    assert run(shared_lab, "proxmox-boot-tool", "bogus").rc == 1


def test_a_refresh_is_what_the_next_boot_reads() -> None:
    with running("desktop-single-gpu") as lab:
        (lab.root / "etc/kernel/cmdline").write_text("root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet iommu=pt\n")
        assert run(lab, "proxmox-boot-tool", "refresh").rc == 0
        booted = esp.booted_cmdline(lab.root)
        assert booted is not None
        assert booted[1].endswith("boot=zfs quiet iommu=pt")
        (lab.root / "etc/kernel/cmdline").write_text("quiet\n")
        done = run(lab, "proxmox-boot-tool", "refresh")
        assert (done.rc, done.err) == (1, "No root= parameter in /etc/kernel/cmdline found!\n")


def test_units_are_enabled_started_and_come_back_at_boot(lab: RunningLab) -> None:
    unit = "[Unit]\nDescription=x\n\n[Service]\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n"
    (lab.root / "etc/systemd/system/x.service").write_text(unit)
    assert run(lab, "systemctl", "is-enabled", "x") == Answer(1, "disabled\n")
    assert run(lab, "systemctl", "enable", "--now", "x.service").rc == 0
    assert run(lab, "systemctl", "is-active", "x") == Answer(0, "active\n")
    assert wanted_at_boot(lab.host) == ["x.service"]
    assert run(lab, "systemctl", "stop", "x").rc == 0
    assert run(lab, "systemctl", "is-active", "x") == Answer(3, "inactive\n")
    lab.reboot()
    assert run(lab, "systemctl", "is-active", "x").rc == 0
    assert "Removed" in run(lab, "systemctl", "disable", "x").err
    assert not (lab.root / "etc/systemd/system/multi-user.target.wants").exists()
    assert run(lab, "systemctl", "is-active", "nothing") == Answer(4, "inactive\n")
    assert run(lab, "systemctl", "enable", "nothing").rc == 1
    assert run(lab, "systemctl", "is-active", "pveproxy").rc == 0
    assert run(lab, "systemctl", "daemon-reload").rc == 0
    assert run(lab, "systemctl", "bogus").rc == 1


def test_udevadm_verify_finds_a_broken_line(lab: RunningLab) -> None:
    path = "/etc/udev/rules.d/60-x.rules"
    (lab.root / path[1:]).write_text('ACTION=="add", ATTR{driver_override}="vfio-pci"\n')
    assert run(lab, "udevadm", "verify", path).rc == 0
    (lab.root / path[1:]).write_text('ACTION=="add\n')
    assert run(lab, "udevadm", "verify", path).rc == 1
    assert run(lab, "udevadm", "control", "--reload").rc == 0
    assert run(lab, "udevadm", "verify", "/nope").rc == 1


def test_volumes_as_lvm_reports_them(shared_lab: RunningLab) -> None:
    report = json.loads(run(shared_lab, "pvs", "-o", "pv_name,vg_name", "--reportformat", "json").out)
    assert {"pv_name": "/dev/nvme0n1p3", "vg_name": "pve"} in report["report"][0]["pv"]
    assert "root" in run(shared_lab, "lvs").out
    assert run(shared_lab, "zpool", "status", "-P", "-L").out == "no pools available\n"


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (("hostname",), "pve1\n"),
        (("id", "-u"), "0\n"),
        (("whoami",), "root\n"),
        (("uname", "-m"), "x86_64\n"),
        (("nproc",), "128\n"),
        (("true",), ""),
        (("mokutil", "--sb-state"), "SecureBoot disabled\n"),
    ],
)
def test_small_commands(shared_lab: RunningLab, argv: tuple[str, ...], out: str) -> None:
    assert run(shared_lab, *argv) == Answer(0, out)


def test_pveversion_names_the_running_kernel(shared_lab: RunningLab) -> None:
    release = (shared_lab.root / "proc/sys/kernel/osrelease").read_text().strip()
    assert run(shared_lab, "pveversion").out.endswith(f"(running kernel: {release})\n")
    assert "qemu-server: " in run(shared_lab, "pveversion", "-v").out


@pytest.mark.parametrize("argv", [(), ("bash",), ("/opt/evil/qm", "list"), ("../qm", "list"), ("dd",)])
def test_anything_else_is_127(shared_lab: RunningLab, argv: tuple[str, ...]) -> None:
    assert run(shared_lab, *argv).rc == 127


def test_a_command_can_be_taken_away(lab: RunningLab) -> None:
    lab.host.hidden.add("qm")
    assert run(lab, "qm", "list").rc == 127


def test_qm_list_as_recorded(shared_lab: RunningLab) -> None:
    assert run(shared_lab, "qm", "list").out.splitlines() == [
        "      VMID NAME                 STATUS     MEM(MB)    BOOTDISK(GB) PID       ",
        "       100 llm                  stopped    524288           512.00 0         ",
    ]


def test_every_machine_starts_and_answers() -> None:
    from provision.lab.machine import machine_names

    for name in machine_names():
        with running(name) as lab:
            assert run(lab, "pveversion").rc == 0
            assert run(lab, "qm", "list").rc == 0
            assert Path(lab.inventory).is_file()
