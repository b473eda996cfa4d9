"""Files of a fresh host that are Debian's: names, network, disks, packages."""

from __future__ import annotations

from provision.lab.machine import Machine


def packages(machine: Machine) -> dict[str, str]:
    """Return the versions of the packages on the host, by name."""
    kernels = {
        f"proxmox-kernel-{release}-signed": release.removesuffix("-pve")
        for release in (machine.versions.kernel, *machine.versions.older_kernels)
    }
    return {**kernels, **machine.versions.packages}


def files(machine: Machine) -> dict[str, str]:
    """Return the files by absolute path."""
    address = machine.network.address.partition("/")[0]
    return {
        "/etc/machine-id": f"{machine.machine_id}\n",
        "/etc/hostname": f"{machine.node}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{address} {machine.node}.lab.example {machine.node}\n",
        "/etc/resolv.conf": "search lab.example\nnameserver 192.0.2.1\n",
        "/etc/os-release": _OS_RELEASE,
        "/etc/debian_version": "13.1\n",
        "/etc/timezone": "Etc/UTC\n",
        "/etc/fstab": _fstab(machine),
        "/etc/network/interfaces": _interfaces(machine),
        "/var/lib/dpkg/status": _dpkg(machine),
    }


def _fstab(machine: Machine) -> str:
    lines = ["# <file system> <mount point> <type> <options> <dump> <pass>"]
    if machine.boot.storage == "lvm":
        lines += ["/dev/pve/root / ext4 errors=remount-ro 0 1"]
        if machine.firmware.mode == "efi":
            lines += [f"UUID={machine.boot.esp_uuid} /boot/efi vfat defaults 0 1"]
        lines += ["/dev/pve/swap none swap sw 0 0"]
    if machine.boot.storage == "ext4":
        lines += [f"UUID={machine.boot.root_uuid} / ext4 errors=remount-ro 0 1"]
        lines += [f"UUID={machine.boot.esp_uuid} /boot/efi vfat defaults 0 1"] * (machine.firmware.mode == "efi")
    for disk in machine.disks:
        kind, _, name = (disk.data or "").partition(":")
        if kind == "lvm":
            lines.append(f"/dev/{name}/images /mnt/{name} ext4 defaults 0 2")
    lines.append("proc /proc proc defaults 0 0")
    return "\n".join(lines) + "\n"


def _interfaces(machine: Machine) -> str:
    """As the installer writes it: a bridge on the first interface, the others set to manual."""
    network = machine.network
    ports = [interface.name for interface in machine.interfaces if interface.bridge == network.bridge]
    text = "auto lo\niface lo inet loopback\n\n"
    text += "".join(f"iface {name} inet manual\n\n" for name in ports)
    text += (
        f"auto {network.bridge}\niface {network.bridge} inet static\n\taddress {network.address}\n"
        f"\tgateway {network.gateway}\n\tbridge-ports {' '.join(ports) or 'none'}\n\tbridge-stp off\n\tbridge-fd 0\n\n"
    )
    others = (i.name for i in machine.interfaces if i.name not in ports)
    text += "".join(f"iface {name} inet manual\n\n" for name in others)
    return text + "\nsource /etc/network/interfaces.d/*\n"


def _dpkg(machine: Machine) -> str:
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
        for name, version in sorted(packages(machine).items())
    )


_OS_RELEASE = """\
PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
NAME="Debian GNU/Linux"
VERSION_ID="13"
VERSION="13 (trixie)"
VERSION_CODENAME=trixie
DEBIAN_VERSION_FULL=13.1
ID=debian
HOME_URL="https://www.debian.org/"
"""
