"""``update-grub``: from ``/etc/default/grub`` and its snippets to ``/boot/grub/grub.cfg``."""

from __future__ import annotations

import re

from provision.lab.commands import boot_loaders
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.commands.shell_words import ShellSyntaxError, source
from provision.lab.rootfs import Rootfs

DEFAULTS = "/etc/default/grub"
SNIPPETS = "/etc/default/grub.d"
CONFIG = "/boot/grub/grub.cfg"
PBT_WARNING = (
    "W: This system is booted via proxmox-boot-tool:\n"
    "W: Executing 'update-grub' directly does not update the correct configs!\n"
    "W: Running: 'proxmox-boot-tool refresh'\n\n"
)


def update_grub(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    """Generate the configuration anew.  A broken defaults file leaves the old one, as the real one does."""
    before = ""
    if host.root.exists(boot_loaders.UUIDS):
        before = PBT_WARNING + boot_loaders.refresh(host).err
    try:
        variables = variables_of(host.root)
    except ShellSyntaxError as error:
        return fail(f"{before}/usr/sbin/grub-mkconfig: {error}", 2)
    host.root.write(CONFIG, config(host.root, variables), mode=0o600)
    return Answer(0, "", before + _progress(host.root))


def variables_of(root: Rootfs) -> dict[str, str]:
    """Return the GRUB_* variables after all files.  Raises ShellSyntaxError, its message naming file and line."""
    variables: dict[str, str] = {}
    snippets = [f"{SNIPPETS}/{name}" for name in root.names(SNIPPETS) if name.endswith(".cfg")]
    for path in (DEFAULTS, *snippets):
        try:
            source(root.read(path) or "", variables)
        except ShellSyntaxError as error:
            raise ShellSyntaxError(error.line, f"{path}: {error.line}: {error}") from error
    return variables


def kernels(root: Rootfs) -> list[str]:
    """Return the installed kernel releases, newest first."""
    names = [name.removeprefix("vmlinuz-") for name in root.names("/boot") if name.startswith("vmlinuz-")]
    return sorted(names, key=lambda release: [int(number) for number in re.findall(r"\d+", release)], reverse=True)


def config(root: Rootfs, variables: dict[str, str]) -> str:
    """Return ``grub.cfg``: one entry per kernel, the newest first, and a recovery entry for each."""
    both = f"{variables.get('GRUB_CMDLINE_LINUX', '')} {variables.get('GRUB_CMDLINE_LINUX_DEFAULT', '')}"
    device = root_device(root)
    text = (
        "# made by update-grub from /etc/grub.d and /etc/default/grub; do not edit\n\n"
        f"set timeout={variables.get('GRUB_TIMEOUT', '5')}\n\n### BEGIN /etc/grub.d/10_linux ###\n"
    )
    name = variables.get("GRUB_DISTRIBUTOR") or "Proxmox VE"
    for release in kernels(root):
        text += _entry(f"{name} GNU/Linux, with Linux {release}", release, f"root={device} ro {both}")
    single = variables.get("GRUB_CMDLINE_LINUX", "")
    for release in kernels(root):
        title = f"{name} GNU/Linux, with Linux {release} (recovery mode)"
        text += _entry(title, release, f"root={device} ro single {single}".rstrip())
    return text + "### END /etc/grub.d/10_linux ###\n"


def _entry(title: str, release: str, options: str) -> str:
    return (
        f"menuentry '{title}' --class proxmox --class gnu-linux --class gnu --class os {{\n"
        "\tload_video\n\tinsmod gzio\n\tinsmod part_gpt\n\tinsmod lvm\n\tinsmod ext2\n"
        f"\techo\t'Loading Linux {release} ...'\n"
        f"\tlinux\t/boot/vmlinuz-{release} {options}\n"
        "\techo\t'Loading initial ramdisk ...'\n"
        f"\tinitrd\t/boot/initrd.img-{release}\n}}\n"
    )


def root_device(root: Rootfs) -> str:
    """Return what grub-probe finds for ``/``."""
    return "/dev/mapper/pve-root" if root.link("/dev/mapper/pve-root") else "ZFS=/ROOT/pve-1"


def _progress(root: Rootfs) -> str:
    lines = ["Generating grub configuration file ..."]
    for release in kernels(root):
        lines.append(f"Found linux image: /boot/vmlinuz-{release}")
        if root.exists(f"/boot/initrd.img-{release}"):
            lines.append(f"Found initrd image: /boot/initrd.img-{release}")
    if root.exists("/sys/firmware/efi"):
        lines.append("Adding boot menu entry for UEFI Firmware Settings ...")
    return "\n".join([*lines, "done"]) + "\n"
