"""``proxmox-boot-tool``, ``efibootmgr`` and ``mokutil``."""

from __future__ import annotations

from provision.lab import esp
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery

UUIDS = "/etc/kernel/proxmox-boot-uuids"
NAMESPACE = "Re-executing '{command}' in new private mount namespace..\n"


def proxmox_boot_tool(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if argv[1:2] == ("status",):
        return _status(host, quiet="--quiet" in argv)
    if argv[1:2] == ("refresh",):
        return refresh(host)
    if argv[1:3] == ("kernel", "list"):
        listed = "".join(f"{release}\n" for release in _kernels(host))
        return Answer(0, f"Manually selected kernels:\nNone.\n\nAutomatically selected kernels:\n{listed}")
    return fail(f"E: unknown command '{argv[1] if len(argv) > 1 else ''}'")


def _uuids(host: Machinery) -> list[str] | None:
    text = host.root.read(UUIDS)
    return None if text is None else text.split()


def _loader_of(host: Machinery) -> str:
    """``uefi`` means systemd-boot in this tool's words."""
    return "uefi" if host.machine.boot.loader == "systemd-boot" else "grub"


def _kernels(host: Machinery) -> list[str]:
    return sorted(name.removeprefix("vmlinuz-") for name in host.root.names("/boot") if name.startswith("vmlinuz-"))


def _status(host: Machinery, *, quiet: bool) -> Answer:
    uuids = _uuids(host)
    if uuids is None:
        return Answer(2, "", "" if quiet else f"E: {UUIDS} does not exist.\n")
    if quiet:
        return Answer(0)
    mode = "uefi" if host.root.exists("/sys/firmware/efi") else "legacy bios"
    text = NAMESPACE.format(command="/usr/sbin/proxmox-boot-tool") + f"System currently booted with {mode}\n"
    versions = ", ".join(_kernels(host))
    for uuid in uuids:
        text += f"{uuid} is configured with: {_loader_of(host)} (versions: {versions})\n"
    return Answer(0, text)


def refresh(host: Machinery) -> Answer:
    """Write the boot entries of every ESP anew; a host whose ESPs the tool does not keep is left alone."""
    if _uuids(host) is None:
        out = "Running hook script 'proxmox-auto-removal'..\nRunning hook script 'zz-proxmox-boot'..\n"
        out += NAMESPACE.format(command="/etc/kernel/postinst.d/zz-proxmox-boot")
        return Answer(0, f"{out}No {UUIDS} found, skipping ESP sync.\n")
    done = esp.refresh(host.root.root)
    return Answer(done.rc, done.stdout, done.stderr)


def efibootmgr(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if not host.root.exists("/sys/firmware/efi"):
        return fail("EFI variables are not supported on this system.", 2)
    loader = "systemd\\systemd-bootx64.efi" if host.machine.boot.loader == "systemd-boot" else "proxmox\\shimx64.efi"
    name = "Linux Boot Manager" if host.machine.boot.loader == "systemd-boot" else "proxmox"
    path = f"HD(2,GPT,5e1b6a37-1d1c-4c0e-8f5c-0f7c1f0f9a11,0x800,0x200000)/File(\\EFI\\{loader})"
    return Answer(0, f"BootCurrent: 0000\nTimeout: 1 seconds\nBootOrder: 0000\nBoot0000* {name}\t{path}\n")


def mokutil(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if not host.root.exists("/sys/firmware/efi"):
        return fail("EFI variables are not supported on this system")
    return Answer(0, f"SecureBoot {'enabled' if host.machine.firmware.secure_boot else 'disabled'}\n")
