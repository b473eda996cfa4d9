"""The commands that a lab machine has.  What is not in the table is 127, never the machine's own."""

from __future__ import annotations

from collections.abc import Mapping

from provision.lab.commands import (
    boot_loaders,
    grub,
    ha_manager,
    initramfs,
    machine_facts,
    one_shot,
    pct,
    pvesh,
    qm,
    reading,
    systemd,
)
from provision.lab.commands.answer import Answer
from provision.lab.commands.context import Command, Machinery

TABLE: Mapping[str, Command] = {
    "bootctl": one_shot.bootctl,
    "dmesg": reading.dmesg,
    "efibootmgr": boot_loaders.efibootmgr,
    "false": lambda _host, _argv, _stdin: Answer(1),
    "getent": machine_facts.getent,
    "grub-editenv": one_shot.grub_editenv,
    "grub-reboot": one_shot.grub_reboot,
    "ha-manager": ha_manager.ha_manager,
    "hostname": machine_facts.hostname,
    "id": machine_facts.identity,
    "kvm": machine_facts.kvm,
    "lvs": machine_facts.lvs,
    "mokutil": boot_loaders.mokutil,
    "mount": one_shot.mount,
    "nproc": machine_facts.nproc,
    "pct": pct.pct,
    "proxmox-boot-tool": boot_loaders.proxmox_boot_tool,
    "pveversion": machine_facts.pveversion,
    "pvs": machine_facts.pvs,
    "pvesh": pvesh.pvesh,
    "qm": qm.qm,
    "reboot": systemd.reboot,
    "sync": lambda _host, _argv, _stdin: Answer(),
    "systemctl": systemd.systemctl,
    "true": lambda _host, _argv, _stdin: Answer(),
    "udevadm": systemd.udevadm,
    "umount": one_shot.umount,
    "uname": machine_facts.uname,
    "update-grub": grub.update_grub,
    "update-initramfs": initramfs.update_initramfs,
    "whoami": lambda _host, _argv, _stdin: Answer(out="root\n"),
    "zfs": machine_facts.zfs,
    "zpool": machine_facts.zpool,
}
FOLDERS = ("/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/sbin/", "/usr/local/bin/")


def run(host: Machinery, argv: tuple[str, ...], stdin: bytes = b"") -> Answer:
    """Run one command of the host by its argv."""
    if not argv:
        return Answer(127, "", "no command\n")
    command = TABLE.get(_name(argv[0]))
    if command is None or host.is_hidden(_name(argv[0])):
        return Answer(127, "", f"{argv[0]}: command not found\n")
    return command(host, argv, stdin)


def _name(word: str) -> str:
    for folder in FOLDERS:
        if word.startswith(folder):
            return word.removeprefix(folder)
    return word
