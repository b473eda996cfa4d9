"""Files of a fresh host below /etc/pve: mappings, VM configurations, storage.

A standalone node: there is no corosync.conf.
"""

from __future__ import annotations

import json

from provision.lab.host_config import HostConfig
from provision.lab.kernel import start
from provision.lab.layout import Layout, Placed
from provision.lab.machine import Machine, Pool, VmSetup
from provision.pve.mapping import parse_entry, write_file
from provision.pve.model import PciMapping


def files(machine: Machine, layout: Layout) -> dict[str, str]:
    """Return the files by absolute path."""
    node = f"/etc/pve/nodes/{machine.node}"
    found = {
        "/etc/pve/.version": json.dumps({"starttime": 1756712000, "clinfo": 1, "vmlist": 1}) + "\n",
        "/etc/pve/.members": json.dumps({"nodename": machine.node, "version": 0}) + "\n",
        "/etc/pve/datacenter.cfg": "keyboard: en-us\n",
        "/etc/pve/storage.cfg": _storage(machine),
        f"{node}/lrm_status": "{}\n",
    }
    if machine.pools:
        found["/etc/pve/mapping/pci.cfg"] = mapping_text(machine, layout)
    for vmid, setup in machine.vms.items():
        found[f"{node}/qemu-server/{vmid}.conf"] = vm_text(machine, layout, setup)
    return found


def links(machine: Machine) -> dict[str, str]:
    """Return links below the root by their path, without leading slashes."""
    node = f"etc/pve/nodes/{machine.node}"
    return {"etc/pve/local": node, "etc/pve/qemu-server": f"{node}/qemu-server", "etc/pve/lxc": f"{node}/lxc"}


def mapping_text(machine: Machine, layout: Layout) -> str:
    """Return pci.cfg as Proxmox writes it: required keys first, then the others by name."""
    config = HostConfig(frozenset(), frozenset(), frozenset())
    groups = start(machine, layout, config, machine.boot.cmdline)
    pools = []
    for name, pool in sorted(machine.pools.items()):
        texts = [_entry(machine, p, pool, groups.group_of(str(p.bdf))) for p in _of_kind(layout, pool.kind)]
        entries = [entry for text in texts if (entry := parse_entry(text)) is not None]
        if len(entries) != len(texts):
            raise ValueError(f"a mapping of {machine.name} is none that Proxmox would take: {texts}")
        pools.append(PciMapping(id=name, entries=tuple(entries), description=pool.description or None))
    return write_file(pools)


def _of_kind(layout: Layout, kind: str) -> list[Placed]:
    return [placed for placed in layout.functions if placed.function.kind == kind]


def _entry(machine: Machine, placed: Placed, pool: Pool, group: int | None) -> str:
    part = placed.part
    fields = [f"id={part.ids[0]:04x}:{part.ids[1]:04x}"]
    if group is not None:
        fields.append(f"iommugroup={group + pool.group_shift}")
    fields += [f"node={machine.node}", f"path={placed.bdf}"]
    if part.subsystem is not None:
        fields.append(f"subsystem-id={part.subsystem[0]:04x}:{part.subsystem[1]:04x}")
    return ",".join(fields)


def vm_text(machine: Machine, layout: Layout, setup: VmSetup) -> str:
    """Return a VM's file: keys in the order in which Proxmox writes them."""
    config = dict(setup.config)
    tail = f",{setup.options}" if setup.options else ""
    if setup.pool is not None:
        count = len(_of_kind(layout, machine.pools[setup.pool].kind))
        config.update({f"hostpci{index}": f"mapping={setup.pool}{tail}" for index in range(count)})
    for index, device in enumerate(setup.devices):
        config[f"hostpci{index}"] = f"{layout.by_id(device).bdf.slot}{tail}"
    return "".join(f"{key}: {config[key]}\n" for key in sorted(config))


def _storage(machine: Machine) -> str:
    text = "dir: local\n\tpath /var/lib/vz\n\tcontent iso,vztmpl,backup\n\n"
    if machine.boot.storage == "zfs":
        return text + "zfspool: local-zfs\n\tpool rpool/data\n\tsparse\n\tcontent images,rootdir\n\n"
    return text + "lvmthin: local-lvm\n\tthinpool data\n\tvgname pve\n\tcontent rootdir,images\n\n"
