"""From what the user typed to a host: inventory name, address or ``local``; live or from a capture."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provision.capture.model import Capture
from provision.errors import UsageError
from provision.inventory.models import Host, Inventory, Policies
from provision.pve.session import PveSession
from provision.remote.session import Session, Target


@dataclass(frozen=True)
class Site:
    """One host and what the inventory wishes for it."""

    name: str
    target: Target
    host: Host | None
    policies: Policies
    inventory_path: Path | None

    @property
    def wish(self) -> Host:
        """The inventory's entry.  Raises UsageError where the host came without an inventory."""
        if self.host is None:
            raise UsageError(
                f"Unable to plan for {self.name}: no inventory says what should be there",
                f"write one with: pvectl init {self.name} -o pvectl.yaml",
            )
        return self.host


def resolve(target: str | None, inventory: Path | None) -> Site:
    """Return the one host that ``target`` names, or the inventory's only host without a target."""
    path, wishes = _inventory(inventory)
    if target is not None and (wishes is None or target not in wishes.hosts):
        return _plain(target, wishes, path)
    if wishes is None:
        raise UsageError(
            "Unable to find a host: none was named and there is no inventory",
            "name one (root@pve1), or write an inventory with: pvectl init root@pve1 -o pvectl.yaml",
        )
    if target is None and len(wishes.hosts) > 1:
        raise UsageError(
            f"Unable to choose a host: {path} has {', '.join(sorted(wishes.hosts))}",
            "name one of them on the command line",
        )
    return _from_inventory(target or next(iter(wishes.hosts)), wishes, path)


def _inventory(explicit: Path | None) -> tuple[Path | None, Inventory | None]:
    from provision.inventory.loader import find_inventory, load

    path = find_inventory(explicit, dict(os.environ), Path.cwd())
    return path, load(path) if path else None


def _plain(target: str, wishes: Inventory | None, path: Path | None) -> Site:
    from provision.remote.connect import parse_target

    if wishes is not None and "@" not in target and ":" not in target and "." not in target and target != "local":
        raise UsageError(
            f"Unable to find host {target}: {path} has {', '.join(sorted(wishes.hosts))}",
            f"name one of them, or write root@{target} for a host outside the inventory",
        )
    return Site(target, parse_target(target), None, Policies(), path)


def _from_inventory(name: str, wishes: Inventory, path: Path | None) -> Site:
    from provision.remote.connect import parse_target

    host = wishes.hosts[name]
    base = parse_target(host.address)
    options = host.ssh
    target = base.model_copy(
        update={
            "name": name if base.kind == "local" else f"{name} ({host.address})",
            "identity_file": options.identity_file,
            "known_hosts": options.known_hosts,
            "ssh_config": options.config,
            "jump": options.jump,
            "connect_timeout": options.connect_timeout,
        }
    )
    return Site(name, target, host, wishes.policies_for(name), path)


@contextmanager
def open_session(site: Site) -> Iterator[Session]:
    """Open the agent on the host and close it at the end."""
    from provision.remote.connect import connect

    session = connect(site.target, lab_door=os.environ.get("PVECTL_LAB_DOOR"))
    try:
        yield session
    finally:
        session.close()


def open_pve(site: Site, session: Session | None) -> PveSession:
    """Open Proxmox' objects by what the inventory gives: token, ticket or the host's own pvesh."""
    from provision.cli.output import progress
    from provision.inventory.secrets import read_secret
    from provision.pve.open import open_pve as connect_pve

    return connect_pve(site.host, session, read_secret, name=site.name, tell=progress)


def load_or_read(site: Site | None, from_: Path | None) -> Capture:
    """Return a capture: from a file where ``from_`` is given, else read from the host now."""
    if from_ is not None:
        from provision.capture.store import load

        return load(from_)
    if site is None:
        raise UsageError("Unable to read: neither a host nor --from FILE was given", "name a host or a capture")
    from provision.capture.collect import collect_host

    with open_session(site) as session:
        return collect_host(session)
