"""What the host lives on: storage networks, stacks, members, boot partitions, consoles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.host.assemble import assemble
from provision.host.model import HostModel

ROUTES = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "vmbr0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "vmbr0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "eno2\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)
"""10.0.0.0/24 on vmbr0, 10.0.1.0/24 on eno2."""
Make = Callable[..., Any]


def two_nics(server: Make) -> Any:
    made = server(1)
    made.files["/proc/net/route"] = ROUTES.encode()
    made.links["/sys/class/net/eno2"] = "../../devices/pci0000:00/0000:00:02.2/0000:04:00.0/net/eno2"
    made.files["/sys/class/net/eno2/address"] = b"02:00:00:00:00:02\n"
    made.absent |= {("file", "/sys/class/net/eno2/bonding/slaves"), ("dir", "/sys/class/net/eno2/brif")}
    made.absent.add(("link", "/sys/class/net/eno2/master"))
    return made


def uses(model: HostModel, name: str) -> tuple[str, ...]:
    assert isinstance(model.interfaces, tuple)
    return next(interface.uses for interface in model.interfaces if interface.name == name)


@pytest.mark.parametrize(
    ("path", "text", "use"),
    [
        ("/etc/pve/storage.cfg", "nfs: backup\n\tserver 10.0.1.9\n\texport /x\n", "storage backup"),
        ("/etc/pve/storage.cfg", "iscsi: san\n\tportal 10.0.1.9:3260\n\ttarget iqn.x\n", "storage san"),
        ("/etc/pve/storage.cfg", "rbd: ceph\n\tmonhost 10.0.1.7 10.0.1.8\n", "storage ceph"),
        ("/etc/pve/ceph.conf", "[global]\n\tmon_host = 10.0.1.7 10.0.1.8\n", "Ceph"),
        ("/etc/pve/ceph.conf", "[global]\n\tcluster network = 10.0.1.0/24\n", "Ceph cluster_network"),
        ("/sys/class/iscsi_connection/connection1:0/persistent_address", "10.0.1.9\n", "iSCSI"),
        ("/etc/pve/corosync.conf", "nodelist {\n node {\n  ring0_addr: 10.0.1.12\n }\n}\n", "corosync"),
    ],
)
def test_the_interface_towards_a_storage_is_told(server: Make, path: str, text: str, use: str) -> None:
    made = two_nics(server)
    made.files[path] = text.encode()
    made.absent.discard(("file", path))
    assert use in uses(assemble(made.capture()), "eno2")


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("nas:/x /mnt/pve/nas nfs4 rw,addr=10.0.1.9 0 0", "storage nfs4 /mnt/pve/nas"),
        ("//nas/x /mnt/pve/smb cifs rw,addr=10.0.1.9 0 0", "storage cifs /mnt/pve/smb"),
        ("10.0.1.7:6789,10.0.1.8:6789:/ /mnt/pve/cephfs ceph rw 0 0", "storage ceph /mnt/pve/cephfs"),
    ],
)
def test_the_interface_of_a_mount_is_told(server: Make, line: str, use: str) -> None:
    made = two_nics(server)
    made.files["/proc/mounts"] += f"{line}\n".encode()
    assert use in uses(assemble(made.capture()), "eno2")


def test_a_disabled_storage_is_no_use(server: Make) -> None:
    made = two_nics(server)
    made.files["/etc/pve/storage.cfg"] = b"nfs: old\n\tserver 10.0.1.9\n\tdisable\n"
    assert "storage old" not in uses(assemble(made.capture()), "eno2")


def test_our_own_end_of_the_connection_counts_as_well(server: Make) -> None:
    made = two_nics(server)
    made.commands["ssh-connection"] = "192.0.2.5 50000 10.0.1.11 22"
    model = assemble(made.capture())
    assert "this connection" in uses(model, "eno2")
    assert "this connection" in uses(model, "eno1")


def test_a_stack_of_any_kind_is_followed_by_the_kernels_links(server: Make) -> None:
    made = two_nics(server)
    made.files["/proc/net/route"] = ROUTES.replace("eno2", "storage").encode()
    made.links["/sys/class/net/storage"] = "../../devices/virtual/net/storage"
    made.links["/sys/class/net/storage/lower_eno2"] = "../eno2"
    made.absent |= {("file", "/sys/class/net/storage/bonding/slaves"), ("dir", "/sys/class/net/storage/brif")}
    made.absent.add(("link", "/sys/class/net/storage/master"))
    assert "network 10.0.1.0/24" in uses(assemble(made.capture()), "eno2")


def test_every_port_of_open_vswitch_counts(server: Make) -> None:
    made = two_nics(server)
    made.links["/sys/class/net/ovs-system"] = "../../devices/virtual/net/ovs-system"
    made.absent.discard(("link", "/sys/class/net/eno2/master"))
    made.links["/sys/class/net/eno2/master"] = "../ovs-system"
    made.absent |= {("file", "/sys/class/net/ovs-system/bonding/slaves"), ("dir", "/sys/class/net/ovs-system/brif")}
    made.absent.add(("link", "/sys/class/net/ovs-system/master"))
    assert "Open vSwitch" in uses(assemble(made.capture()), "eno2")


def test_the_link_to_a_bmc_is_told(server: Make) -> None:
    made = two_nics(server)
    made.files["/proc/net/route"] += b"usb0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    made.links["/sys/class/net/usb0"] = "../../devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4:2.0/net/usb0"
    made.absent |= {("file", "/sys/class/net/usb0/bonding/slaves"), ("dir", "/sys/class/net/usb0/brif")}
    made.absent.add(("link", "/sys/class/net/usb0/master"))
    model = assemble(made.capture())
    assert uses(model, "usb0") == ("link to the BMC",)
    assert isinstance(model.interfaces, tuple)
    assert next(i.bdf for i in model.interfaces if i.name == "usb0") == "0000:00:14.0"


def disk_uses(model: HostModel, name: str) -> tuple[str, ...]:
    assert isinstance(model.disks, tuple), model.disks
    return next(disk.uses for disk in model.disks if disk.name == name)


def test_the_paths_of_a_multipath_device_are_in_use_mounted_or_not(server: Make) -> None:
    made = server(1)
    for name in ("sda", "sdb"):
        made.links[f"/sys/block/{name}"] = f"../devices/pci0000:00/0000:00:02.1/0000:03:00.0/host1/{name}"
        made.dirs[f"/sys/block/{name}/slaves"] = ()
    made.links["/sys/block/dm-7"] = "../devices/virtual/block/dm-7"
    made.dirs["/sys/block/dm-7/slaves"] = ("sda", "sdb")
    made.files["/sys/block/dm-7/dm/name"] = b"mpatha\n"
    made.files["/sys/block/dm-7/dm/uuid"] = b"mpath-3600508b400105e210000900000490000\n"
    model = assemble(made.capture())
    assert disk_uses(model, "sda") == disk_uses(model, "sdb") == ("multipath mpatha",)


def test_every_member_of_btrfs_is_in_use(server: Make) -> None:
    made = server(1)
    made.links["/sys/block/sda"] = "../devices/pci0000:00/0000:00:02.1/0000:03:00.0/ata1/sda"
    made.files["/proc/mounts"] = b"/dev/nvme0n1p3 / btrfs rw 0 0\n"
    assert isinstance(assemble(made.capture()).disks, Unknown)
    made.dirs["/sys/fs/btrfs/11111111-2222-3333-4444-555555555555/devices"] = ("nvme0n1p3", "sda3")
    model = assemble(made.capture())
    assert disk_uses(model, "sda") == ("btrfs 11111111-2222-3333-4444-555555555555",)


def test_the_partition_that_the_firmware_started_from_is_in_use(server: Make) -> None:
    made = server(1)
    uuid = "5e1b6a37-1d1c-4c0e-8f5c-0f7c1f0f9a11"
    made.commands["efibootmgr -v"] = (
        f"BootCurrent: 0002\nBoot0002* proxmox\tHD(2,GPT,{uuid},0x800,0x1)/File(\\EFI\\proxmox\\shimx64.efi)\n"
    )
    made.links["/sys/block/sda"] = "../devices/pci0000:00/0000:00:02.1/0000:03:00.0/ata1/sda"
    made.links[f"/dev/disk/by-partuuid/{uuid}"] = "../../sda2"
    assert disk_uses(assemble(made.capture()), "sda") == ("ESP of Boot0002",)


KEYBOARD = """\
I: Bus=0003 Vendor=046d Product=c31c Version=0110
N: Name="USB Keyboard"
S: Sysfs=/devices/pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0/0003:046D:C31C.0001/input/input5
H: Handlers=sysrq kbd leds event3
B: EV=120013
B: KEY=1000000000007 ff9f207ac14057ff febeffdfffefffff fffffffffffffffe

"""
POWER_BUTTON = """\
I: Bus=0019 Vendor=0000 Product=0001 Version=0000
N: Name="Power Button"
S: Sysfs=/devices/LNXSYSTM:00/LNXPWRBN:00/input/input0
H: Handlers=kbd event0
B: EV=3

"""


@pytest.mark.parametrize(
    ("text", "keyboards"),
    [
        (KEYBOARD + POWER_BUTTON, ("0000:00:14.0",)),
        (POWER_BUTTON, ()),
        (KEYBOARD.replace("pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0", "platform/i8042/serio0"), (None,)),
        ("", ()),
    ],
)
def test_keyboards_and_what_they_hang_on(server: Make, text: str, keyboards: tuple[str | None, ...]) -> None:
    made = server(1)
    made.files["/proc/bus/input/devices"] = text.encode()
    assert assemble(made.capture()).console.keyboards == keyboards


def test_keyboards_that_nobody_looked_for_are_not_known(server: Make) -> None:
    assert isinstance(assemble(server(1).capture()).console.keyboards, Unknown)


def test_the_display_of_the_bmc_is_told(server: Make) -> None:
    console = assemble(server(1).capture()).console
    assert console.bmc == (console.boot_vga,)


def test_a_rescue_system_is_told_by_its_root(server: Make) -> None:
    made = server(1)
    assert assemble(made.capture()).boot.is_installed is True
    made.files["/proc/mounts"] = b"overlay / overlay rw 0 0\n"
    boot = assemble(made.capture()).boot
    assert (boot.is_installed, boot.kind) == (False, "unknown")


def raw_uses(made: Any, name: str = "sdb") -> tuple[str, ...]:
    disks = assemble(made.capture()).disks
    assert isinstance(disks, tuple), disks
    return next(disk.uses for disk in disks if disk.name == name)


@pytest.fixture
def with_raw_disk(server: Make) -> Callable[..., Any]:
    """A second disk on a controller of its own, and a VM with the lines given."""

    def make(*lines: str, node: str = "pve1") -> Any:
        made = server(1)
        made.links["/sys/block/sdb"] = "../devices/pci0000:00/0000:00:03.1/0000:05:00.0/ata9/host8/block/sdb"
        made.links["/dev/disk/by-id/ata-DATA_1"] = "../../sdb"
        made.links["/dev/disk/by-id/ata-DATA_1-part2"] = "../../sdb2"
        made.dirs["/sys/block/sdb/slaves"] = ()
        made.files[f"/etc/pve/nodes/{node}/qemu-server/777.conf"] = "".join(f"{line}\n" for line in lines).encode()
        return made

    return make


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("scsi1: /dev/disk/by-id/ata-DATA_1,size=4T", ("VM 777 scsi1",)),
        ("virtio3: file=/dev/disk/by-id/ata-DATA_1-part2,iothread=1", ("VM 777 virtio3",)),
        ("sata0: /dev/sdb", ("VM 777 sata0",)),
        ("scsi1: /dev/disk/by-id/ata-GONE,size=4T", ()),
        ("scsi1: local-lvm:vm-777-disk-0,size=4T", ()),
        ("scsi1: /dev/zvol/tank/vm-777-disk-0", ()),
        ("description: /dev/sdb", ()),
        ("[old]\nscsi1: /dev/sdb", ()),
    ],
)
def test_a_disk_that_a_vm_has_by_its_path_is_in_use(with_raw_disk: Make, line: str, use: tuple[str, ...]) -> None:
    assert raw_uses(with_raw_disk(line)) == use


def test_a_disk_of_a_vm_on_another_node_is_not_ours(with_raw_disk: Make) -> None:
    assert raw_uses(with_raw_disk("scsi1: /dev/sdb", node="other")) == ()
