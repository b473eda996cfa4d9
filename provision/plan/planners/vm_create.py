"""VMs that do not exist yet: their first configuration, and the change that makes them."""

from __future__ import annotations

from urllib.parse import quote

from provision.errors import InventoryError
from provision.host.model import Vm
from provision.inventory.models import CloudInit, VmCreateWish
from provision.plan.model import Privilege, VmCreate
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import Render, one_line
from provision.pve.privileges import create_needs, least

DISK = "scsi0"


def new_vm(vmid: int, node: str, wish: VmCreateWish, render: Render) -> Vm:
    """Return the VM as ``create`` asks for it, before anything is done for its GPUs."""
    config = first_options(vmid, wish, render)
    return Vm(vmid=vmid, node=node, name=wish.name, status="stopped", config_text="", config=config, hostpci=())


def first_options(vmid: int, wish: VmCreateWish, render: Render) -> dict[str, str]:
    """Return q35 with OVMF, disk, network and cloud-init; a serial console, which cloud images write to."""
    disk = {"storage": wish.storage, "image": wish.disk.image, "size": wish.disk.size}
    net = wish.network
    options = {
        "name": wish.name,
        "memory": str(wish.memory),
        "cores": str(wish.cores),
        "sockets": str(wish.sockets),
        "ostype": wish.ostype,
        "machine": "q35",
        "bios": "ovmf",
        "efidisk0": one_line(render, "vm/efidisk.j2", {"storage": wish.storage}),
        "scsihw": "virtio-scsi-single",
        DISK: one_line(render, "vm/disk.j2", disk),
        "boot": f"order={DISK}",
        "net0": one_line(render, "vm/net.j2", {"model": net.model, "bridge": net.bridge, "vlan": net.vlan}),
        "serial0": "socket",
        "agent": "1",
    }
    return {**options, **(_cloud_init(vmid, wish.storage, wish.cloud_init, render) if wish.cloud_init else {})}


def _cloud_init(vmid: int, storage: str, wish: CloudInit, render: Render) -> dict[str, str]:
    if wish.ssh_keys_file is not None and not wish.ssh_keys:
        raise InventoryError(
            f"Unable to plan VM {vmid}: the keys in {wish.ssh_keys_file} were not read", "give public keys in ssh_keys"
        )
    found = {
        "ide2": one_line(render, "vm/cloud-init-drive.j2", {"storage": storage}),
        "ipconfig0": one_line(render, "vm/ipconfig.j2", {"ip": wish.ip, "gateway": wish.gateway}),
        "ciuser": wish.user or "",
        "nameserver": wish.nameserver or "",
        "searchdomain": wish.searchdomain or "",
        # Proxmox stores keys in the percent form, and takes them in no other.
        "sshkeys": quote("\n".join(key.strip() for key in wish.ssh_keys), safe=""),
    }
    return {key: value for key, value in found.items() if value}


def create_operation(draft: Draft, wish: VmCreateWish) -> VmCreate:
    """Return the operation with the options of ``create`` and those that the GPUs need."""
    wanted = {**draft.target.vm.config, **draft.changed}
    grows = wish.disk.size is not None and wish.disk.image is not None
    return VmCreate(
        vmid=draft.vmid,
        set={key: value for key, value in wanted.items() if value is not None},
        disk=DISK,
        grow_to=f"{wish.disk.size}G" if grows else None,
    )


def create_privilege(operation: VmCreate) -> Privilege:
    """Return who may make it with all its options; an image by its path on the host is left to root@pam."""
    return least(create_needs(operation.vmid, operation.set))
