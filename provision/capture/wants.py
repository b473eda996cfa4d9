"""What is read of a host and of a guest.  Data: a reader of the host model finds here every key it may ask for.

Keys of files, links and folders are paths; keys of commands are their words joined by blanks.
"""

from __future__ import annotations

from provision.remote.session import Want

PCI_FILES = (
    "vendor,device,class,revision,subsystem_vendor,subsystem_device,numa_node,resource,config,driver_override,"
    "current_link_speed,current_link_width,max_link_speed,max_link_width,reset_method,boot_vga,sriov_totalvfs,modalias,"
    "d3cold_allowed,power_state,aer_dev_correctable,aer_dev_nonfatal,aer_dev_fatal"
)


def _files(*patterns: str) -> tuple[Want, ...]:
    return tuple(Want(kind="file", pattern=pattern) for pattern in patterns)


def _links(*patterns: str) -> tuple[Want, ...]:
    return tuple(Want(kind="link", pattern=pattern) for pattern in patterns)


def _folders(*patterns: str) -> tuple[Want, ...]:
    return tuple(Want(kind="dir", pattern=pattern) for pattern in patterns)


def _commands(*lines: str) -> tuple[Want, ...]:
    return tuple(Want(kind="command", argv=tuple(line.split())) for line in lines)


PCI_WANTS: tuple[Want, ...] = (
    *_links("/sys/bus/pci/devices/*", "/sys/bus/pci/devices/*/{driver,iommu_group,iommu,physfn}"),
    *_folders("/sys/bus/pci/devices/*/{mdev_supported_types,nvidia}"),
    *_files(f"/sys/bus/pci/devices/*/{{{PCI_FILES}}}", "/sys/bus/pci/devices/*/firmware_node/path"),
    *_files("/sys/devices/pci*/firmware_node/path", "/sys/bus/pci/slots/*/address"),
)

IOMMU_WANTS: tuple[Want, ...] = (
    *_links("/sys/kernel/iommu_groups/*/devices/*"),
    *_files("/sys/kernel/iommu_groups/*/{type,reserved_regions}"),
    *_folders("/sys/class/iommu", "/sys/firmware/acpi/tables", "/sys/firmware"),
    *_files("/sys/class/iommu/*/intel-iommu/cap", "/sys/firmware/acpi/tables/IVRS"),
)

KERNEL_WANTS: tuple[Want, ...] = (
    *_files(
        "/proc/{cmdline,cpuinfo,meminfo,modules,mounts,swaps}",
        "/proc/sys/kernel/{random/boot_id,osrelease,hostname}",
        "/sys/devices/system/node/node*/{cpulist,meminfo}",
        "/sys/devices/system/node/node*/hugepages/hugepages-*/{nr,free}_hugepages",
        "/sys/kernel/irq/{1,4,8,9}/chip_name",
        "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
        "/proc/iomem",
        "/etc/machine-id",
        "/sys/module/vfio_pci/parameters/disable_idle_d3",
    ),
)

NETWORK_WANTS: tuple[Want, ...] = (
    *_links("/sys/class/net/*", "/sys/class/net/*/master"),
    *_folders("/sys/class/net/*/brif"),
    *_files("/sys/class/net/*/{address,bonding/slaves,bonding_slave/perm_hwaddr}", "/proc/net/{route,ipv6_route}"),
    *_files("/etc/network/interfaces", "/etc/network/interfaces.d/*"),
    *_links("/sys/class/net/*/lower_*"),
    *_files("/etc/systemd/network/*.link", "/usr/local/lib/systemd/network/*.link"),
    *_files("/usr/bin/pve-network-interface-pinning", "/etc/pve/sdn/*.cfg", "/etc/pve/nodes/*/host.fw"),
    *_files("/etc/pve/{storage.cfg,ceph.conf}", "/sys/class/iscsi_connection/*/persistent_address"),
    *_files("/proc/bus/input/devices"),
    Want(kind="command", key="ssh-connection"),
)

STORAGE_WANTS: tuple[Want, ...] = (
    *_links("/sys/block/*", "/dev/disk/by-{uuid,partuuid,id,path,label,partlabel}/*", "/dev/mapper/*"),
    *_folders("/sys/fs/btrfs/*/devices"),
    *_folders("/sys/block/*/slaves", "/sys/block/*/holders"),
    *_files("/sys/block/*/{size,dm/name,dm/uuid}"),
    *_commands("zpool status -P -L", "pvs -o pv_name,vg_name --reportformat json"),
)

BOOT_WANTS: tuple[Want, ...] = (
    *_files(
        "/etc/default/grub",
        "/etc/default/grub.d/*",
        "/boot/grub/{grub.cfg,grubenv,custom.cfg}",
        "/etc/kernel/{cmdline,proxmox-boot-uuids,proxmox-boot-pin}",
        "/etc/modprobe.d/*",
        "/etc/udev/rules.d/*",
        "/etc/modules",
        "/etc/modules-load.d/*",
        "/sys/firmware/efi/efivars/{SecureBoot,LoaderEntrySelected}-*",
    ),
    *_commands("proxmox-boot-tool status", "efibootmgr -v", "bootctl --version"),
)

PROXMOX_WANTS: tuple[Want, ...] = (
    *_files(
        "/etc/pve/mapping/pci.cfg",
        "/etc/pve/nodes/*/qemu-server/*.conf",
        "/etc/pve/corosync.conf",
        "/etc/pve/ha/resources.cfg",
        "/etc/pve/.members",
        "/run/qemu-server/*.pid",
        "/var/lib/pvectl/{identity.json,lock,mapping_unit.py,p2p.json,quarantine.json}",
        "/var/lib/pvectl/runs/*/deadman.decided",
        "/etc/systemd/system/pvectl-mapping.service",
        "/etc/systemd/system/pve-{guests,ha-lrm}.service.d/pvectl-mapping.conf",
    ),
    *_folders("/etc/pve/nodes", "/var/lib/pvectl/runs", "/sys/fs/cgroup/system.slice"),
    *_commands("pveversion", "kvm --version"),
)

HOST_WANTS: tuple[Want, ...] = (
    *PCI_WANTS,
    *IOMMU_WANTS,
    *KERNEL_WANTS,
    *NETWORK_WANTS,
    *STORAGE_WANTS,
    *BOOT_WANTS,
    *PROXMOX_WANTS,
)

GUEST_WANTS: tuple[Want, ...] = (
    *PCI_WANTS,
    *IOMMU_WANTS,
    *KERNEL_WANTS,
    *_files(
        "/etc/os-release",
        "/etc/modprobe.d/*",
        "/proc/driver/nvidia/{version,params}",
        "/proc/driver/nvidia/gpus/*/information",
        "/sys/module/nvidia*/version",
        "/sys/module/nvidia*/parameters/*",
    ),
    *_commands("nvidia-smi -q", "nvidia-smi topo -m"),
)
