"""The way to a guest: by the inventory, or by an address of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.errors import UsageError

if TYPE_CHECKING:
    from provision.cli.context import Site
    from provision.remote.session import Target


@dataclass(frozen=True)
class GuestWay:
    """``site`` is None for a guest that is named by its address alone: then nothing is known of its host."""

    vmid: int
    """0 without an inventory."""
    name: str
    target: Target
    site: Site | None


def guest_targets(site: Site) -> dict[int, Target]:
    """Return the way to each guest that the inventory names."""
    from provision.verify.inventory_hosts import guest_target

    found = {vmid: guest_target(vmid, wish) for vmid, wish in sorted(site.wish.vms.items())}
    return {vmid: target for vmid, target in found.items() if target is not None}


def find_guest(text: str, inventory: Path | None) -> GuestWay:
    """Return the guest that ``100``, ``pve1/100`` or ``user@address[:port]`` names.  Raises UsageError."""
    from provision.verify.inventory_hosts import guest_target

    host, slash, number = text.rpartition("/")
    if not number.isdigit() or not number.isascii():
        return _by_address(text)
    vmid = int(number)
    for site in _sites(host if slash else None, vmid, inventory):
        target = guest_target(vmid, site.wish.vms[vmid])
        if target is None:
            raise UsageError(
                f"Unable to reach guest {vmid} of {site.name}: the inventory does not say how",
                f"give hosts.{site.name}.vms.{vmid}.guest.address",
            )
        return GuestWay(vmid, f"VM {vmid} on {site.name}", target, site)
    raise UsageError(
        f"Unable to find guest {text}: no inventory has this VM",
        "give the guest's own address (root@192.0.2.20), or an inventory with -i FILE",
    )


def _sites(host: str | None, vmid: int, inventory: Path | None) -> list[Site]:
    import os

    from provision.cli.context import resolve
    from provision.inventory.loader import find_inventory, load

    path = find_inventory(inventory, dict(os.environ), Path.cwd())
    if path is None:
        return []
    names = [name for name, entry in load(path).hosts.items() if vmid in entry.vms and host in (None, name)]
    if len(names) > 1:
        raise UsageError(
            f"Unable to choose a host for VM {vmid}: {', '.join(sorted(names))} have one of that number",
            f"write {min(names)}/{vmid}",
        )
    return [resolve(name, inventory) for name in names]


def _by_address(text: str) -> GuestWay:
    from provision.remote.connect import parse_target

    target = parse_target(text)
    return GuestWay(0, text, target, None)
