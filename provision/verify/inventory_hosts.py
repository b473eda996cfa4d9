"""Hosts and guests of an inventory by the names that tests give them, and who a tested machine is in it."""

from __future__ import annotations

from dataclasses import dataclass

from provision.inventory.models import Host, Inventory, Policies, VmWish
from provision.remote.connect import parse_target
from provision.remote.session import Target


@dataclass(frozen=True)
class Entry:
    """What the inventory says of one machine; ``vmid`` and ``vm`` of a guest alone."""

    host_name: str
    host: Host
    policies: Policies
    vmid: int | None = None
    vm: VmWish | None = None


def targets_of(inventory: Inventory) -> dict[str, Target]:
    """Return the way to each host by its name, and to each guest as ``guest-<vmid>``.

    Where two hosts have a guest of the same number it is ``<host>-guest-<vmid>`` too, and that alone tells which.
    """
    found: dict[str, Target] = {}
    for name, host in inventory.hosts.items():
        found[name] = _host_target(name, host)
        for vmid, wish in host.vms.items():
            target = guest_target(vmid, wish)
            if target is not None:
                found.setdefault(f"guest-{vmid}", target)
                found[f"{name}-guest-{vmid}"] = target
    return found


def _host_target(name: str, host: Host) -> Target:
    options = host.ssh
    return parse_target(host.address).model_copy(
        update={
            "name": name,
            "identity_file": options.identity_file,
            "known_hosts": options.known_hosts,
            "ssh_config": options.config,
            "jump": options.jump,
            "connect_timeout": options.connect_timeout,
        }
    )


def guest_target(vmid: int, wish: VmWish) -> Target | None:
    """Return the way to a guest that the inventory gives, None where it gives none."""
    access = wish.guest
    if access is None:
        return None
    given = access.model_dump(include={"user", "identity_file", "known_hosts", "jump"})
    more = {"name": f"guest {vmid} ({access.address})", "port": access.port, "ssh_config": access.config}
    return parse_target(access.address).model_copy(update={**given, **more})


def entry_of(inventory: Inventory, name: str, port: int | None = None) -> Entry | None:
    """Return the entry of a machine by the name or address in ``--hosts``; ``None`` where nothing matches.

    ``port`` decides between machines of one address.
    """
    for host_name, host in inventory.hosts.items():
        policies = inventory.policies_for(host_name)
        for vmid, wish in host.vms.items():
            access = wish.guest
            names = {f"guest-{vmid}", f"{host_name}-guest-{vmid}"}
            is_address = access is not None and access.address == name and port in (None, access.port)
            if name in names or is_address:
                return Entry(host_name, host, policies, vmid, wish)
        target = parse_target(host.address)
        if name == host_name or (target.address == name and port in (None, target.port)):
            return Entry(host_name, host, policies)
    return None


def only_guest(inventory: Inventory) -> Entry | None:
    """Return the one guest that the inventory knows the way to, ``None`` where there are none or several."""
    found = [
        Entry(name, host, inventory.policies_for(name), vmid, wish)
        for name, host in inventory.hosts.items()
        for vmid, wish in host.vms.items()
        if wish.guest is not None
    ]
    return found[0] if len(found) == 1 else None
