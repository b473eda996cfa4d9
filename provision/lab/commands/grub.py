"""``update-grub``: from ``/etc/default/grub`` and its snippets to ``/boot/grub/grub.cfg``."""

from __future__ import annotations

from provision.lab import grub
from provision.lab.commands import boot_loaders
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.install import root_device
from provision.lab.rootfs import Rootfs

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
        text = grub.generate(host.root.root, root_device(host.machine))
    except grub.GrubSyntaxError as error:
        return fail(f"{before}/usr/sbin/grub-mkconfig: {error}", 2)
    host.root.write(grub.GRUB_CFG, text, mode=0o600)
    return Answer(0, "", before + _progress(host.root))


def _progress(root: Rootfs) -> str:
    lines = ["Generating grub configuration file ..."]
    for release in grub.kernels(root.root):
        lines.append(f"Found linux image: /boot/vmlinuz-{release}")
        if root.exists(f"/boot/initrd.img-{release}"):
            lines.append(f"Found initrd image: /boot/initrd.img-{release}")
    if root.exists("/sys/firmware/efi"):
        lines.append("Adding boot menu entry for UEFI Firmware Settings ...")
    return "\n".join([*lines, "done"]) + "\n"
