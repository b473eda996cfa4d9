"""Files of a fresh host that decide how it boots: GRUB's defaults, kernels, modules."""

from __future__ import annotations

from provision.lab.machine import Machine


def files(machine: Machine) -> dict[str, str]:
    """Return the files by absolute path."""
    found = {
        "/etc/default/grub": _default_grub(machine),
        "/etc/default/grub.d/installer.cfg": _INSTALLER,
        "/etc/modules": _MODULES,
        "/etc/modules-load.d/qemu-server.conf": _QEMU_MODULES,
        "/etc/modprobe.d/pve-blacklist.conf": _PVE_BLACKLIST,
        "/etc/modprobe.d/zfs.conf": f"options zfs zfs_arc_max={min(machine.memory // 10, 16 << 30)}\n",
        "/etc/initramfs-tools/initramfs.conf": "MODULES=most\nBUSYBOX=auto\nKEYMAP=n\nCOMPRESS=zstd\n",
        "/etc/initramfs-tools/modules": "# modules that the initial RAM disk loads, one a line\n",
    }
    found.update(_kernels(machine))
    if machine.boot.storage == "zfs":
        found["/etc/default/grub.d/zfs.cfg"] = _ZFS
        found["/etc/kernel/cmdline"] = f"root=ZFS=rpool/ROOT/pve-1 boot=zfs {machine.boot.cmdline}".rstrip() + "\n"
    if machine.boot.loader == "systemd-boot":
        found["/etc/kernel/proxmox-boot-uuids"] = f"{machine.boot.esp_uuid}\n"
    return found


def _kernels(machine: Machine) -> dict[str, str]:
    found: dict[str, str] = {}
    for release in (machine.versions.kernel, *machine.versions.older_kernels):
        modules = f"/usr/lib/modules/{release}"
        found[f"/boot/vmlinuz-{release}"] = f"a lab's kernel {release}\n"
        found[f"/boot/config-{release}"] = _KERNEL_CONFIG
        found[f"{modules}/modules.dep"] = _MODULES_DEP
        found[f"{modules}/modules.builtin"] = (
            "kernel/drivers/pci/pcie/pcieport.ko\nkernel/drivers/iommu/amd/amd_iommu.ko\n"
        )
        found[f"{modules}/kernel/drivers/vfio/pci/vfio-pci.ko"] = ""
    return found


def _default_grub(machine: Machine) -> str:
    """With systemd-boot nothing reads this file: the owner never touched it."""
    options = machine.boot.cmdline if machine.boot.loader == "grub" else "quiet"
    return _DEFAULT_GRUB.replace("@CMDLINE@", options)


_DEFAULT_GRUB = """\
# Run 'update-grub' after a change here: it writes /boot/grub/grub.cfg anew.
# 'info -f grub -n "Simple configuration"' explains every setting.

GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`
GRUB_CMDLINE_LINUX_DEFAULT="@CMDLINE@"
GRUB_CMDLINE_LINUX=""

# Set to false to look for other operating systems on other partitions.
#GRUB_DISABLE_OS_PROBER=false

# A memory map with bad parts left out (works without a patched kernel too).
#GRUB_BADRAM="0x01234567,0xfefefefe,0x89abcdef,0xefefefef"

# No graphical terminal:
#GRUB_TERMINAL=console

# Resolution of the graphical terminal; 'vbeinfo' in GRUB lists what the firmware offers.
#GRUB_GFXMODE=640x480

# Hide the recovery entries:
#GRUB_DISABLE_RECOVERY="true"

# A tone at start:
#GRUB_INIT_TUNE="480 440 1"
"""

_INSTALLER = """\
# Left by the installer.
GRUB_DISABLE_OS_PROBER=true
"""

_ZFS = """\
# Left by the installer: the root file system is on ZFS.
GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/pve-1 boot=zfs"
GRUB_DISABLE_OS_PROBER=true
"""

_MODULES = """\
# Kernel modules that are loaded at boot, one a line, with their options.
# Text behind a number sign is a comment.
"""

_QEMU_MODULES = """\
# loaded for guests: network acceleration, model specific registers
vhost_net
msr
"""

_PVE_BLACKLIST = """\
# framebuffer drivers that get in the way of passthrough
blacklist nvidiafb
"""

_KERNEL_CONFIG = """\
CONFIG_VFIO=m
CONFIG_VFIO_PCI=m
CONFIG_VFIO_IOMMU_TYPE1=m
CONFIG_IOMMU_DEFAULT_DMA_LAZY=y
CONFIG_AMD_IOMMU=y
CONFIG_INTEL_IOMMU=y
CONFIG_INTEL_IOMMU_DEFAULT_ON=y
CONFIG_SYSFB_SIMPLEFB=y
CONFIG_DRM_SIMPLEDRM=y
"""

_MODULES_DEP = """\
kernel/drivers/vfio/vfio.ko:
kernel/drivers/vfio/vfio_iommu_type1.ko: kernel/drivers/vfio/vfio.ko
kernel/drivers/vfio/pci/vfio-pci-core.ko: kernel/drivers/vfio/vfio.ko
kernel/drivers/vfio/pci/vfio-pci.ko: kernel/drivers/vfio/pci/vfio-pci-core.ko kernel/drivers/vfio/vfio.ko
kernel/drivers/gpu/drm/nouveau/nouveau.ko:
"""
