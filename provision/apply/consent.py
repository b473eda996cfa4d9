"""Whose consent a run needs: the plan's own objects, and every guest that would go down."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provision.apply.link import Link
from provision.apply.occupants import occupants_of
from provision.apply.outcome import ApplyOptions
from provision.errors import ConsentNeeded, Refused
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.remote.session import Session


def ask_for(question: str, ask: Callable[[str], bool]) -> None:
    """Ask, and raise ConsentNeeded where the answer is no."""
    if not ask(question):
        raise ConsentNeeded(f"Nothing was changed: the answer to {question!r} was no", "repeat it when you want to")


def check_guests(vmids: Iterable[int], link: Link, options: ApplyOptions) -> None:
    """Raise ConsentNeeded where one of these guests runs and nobody allowed to shut it down."""
    running = [vmid for vmid in vmids if link.pve.vm_status(vmid) == "running"]
    if running and not options.stop_guests:
        names = [f"VM {vmid}" for vmid in running]
        raise _needed(names, f"on {link.session.target}", "it must be down for a change of its own")


def check_reboot(model: HostModel, session: Session, options: ApplyOptions) -> None:
    """Raise where the host may not be rebooted now: by policy, for its cluster, or since guests run on it."""
    target = session.target
    if options.policies.reboot == "never":
        raise Refused(
            f"Unable to reboot {target}: the inventory says policies.reboot: never",
            "reboot it yourself when it suits, then go on with: pvectl apply --resume",
        )
    node = model.proxmox.node
    found = occupants_of(session, node if isinstance(node, str) else "")
    if options.stop_guests:
        return
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        raise ConsentNeeded(
            f"Unable to reboot {target}: whether guests run on it is {vms}",
            "allow it for every guest with --stop-guests",
        )
    if found.unknown:
        raise ConsentNeeded(
            f"Unable to reboot {target}: {'; '.join(found.unknown)}", "allow it for whatever runs with --stop-guests"
        )
    running = [f"VM {vm.vmid}" for vm in vms if vm.node == node and vm.status != "stopped"] + found.running
    if running:
        raise _needed(running, f"on {target}", "a reboot takes it down")


def _needed(running: list[str], where: str, why: str) -> ConsentNeeded:
    return ConsentNeeded(
        f"Unable to continue {where}: {', '.join(running)} is running, and {why}",
        "shut the guests down yourself, or allow it with --stop-guests",
    )
