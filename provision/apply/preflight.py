"""What must be true of a plan before its first step: no secrets, paths of their kind, rights, quorum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from provision.apply.link import Link
from provision.apply.objects import needs_stop
from provision.apply.onboard.once import MARK
from provision.errors import PrivilegeMissing, PveAuthFailed, PvectlError, PveError, StalePlan
from provision.plan.model import (
    ActionRun,
    BootOnce,
    Change,
    FileRemove,
    FileWrite,
    MappingDelete,
    MappingPut,
    Plan,
    VmCreate,
    VmSet,
)
from provision.plan.plan_needs import guest_needs, plan_needs
from provision.pve.privileges import Need, missing

SECRET_OPTIONS: frozenset[str] = frozenset({"cipassword", "sshkeys", "cicustom", "ciuser"})
"""VM options that are or point to credentials: no plan, journal or message may hold their values."""

PATHS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"/etc/default/grub",
        r"/etc/default/grub\.d/[\w.-]+\.cfg",
        r"/etc/kernel/cmdline",
        r"/etc/udev/rules\.d/[\w.-]+\.rules",
        r"/etc/modprobe\.d/[\w.-]+\.conf",
        r"/etc/modules-load\.d/[\w.-]+\.conf",
        r"/etc/modules",
        r"/etc/systemd/network/50-pvectl-[\w.-]+\.link",
        r"/usr/local/lib/systemd/network/50-pmx-[\w.-]+\.link",
        r"/etc/network/interfaces(\.d/[\w.-]+)?",
        r"/etc/systemd/system/[\w.@-]+\.(service|timer)",
        r"/etc/systemd/system/[\w.@-]+\.d/[\w.-]+\.conf",
        r"/var/lib/pvectl/(identity\.json|mapping_unit\.py)",
    )
)
"""Files that a plan may write or remove: a plan file is input from anywhere."""


def check_plan(plan: Plan) -> None:
    """Raise PvectlError where the plan holds what apply never does, whoever wrote the file."""
    for change in plan.changes:
        problem = _problem(change)
        if problem:
            raise PvectlError(
                f"Unable to apply the plan to {plan.host}: step {change.id} {problem}",
                "make a new plan with: pvectl plan",
            )
    if plan.confirm_within is None and any(change.phase == "at-confirm" for change in plan.changes):
        raise PvectlError(
            f"Unable to apply the plan to {plan.host}: it has steps at a confirmation that it does not ask for",
            "make a new plan with: pvectl plan",
        )


_ESP = re.compile(r"[0-9A-Fa-f-]{4,36}")
_AT_CONFIRM = ("update-grub", "boot-refresh", "update-initramfs")


def _problem(change: Change) -> str:
    op = change.operation
    if change.phase == "at-confirm" and not _is_for_confirmation(op):
        return "is none that a host does by itself when its new set-up is confirmed"
    if isinstance(op, BootOnce):
        is_ours = op.content.startswith(MARK) and all(_ESP.fullmatch(esp) for esp in op.esps)
        return "" if is_ours else "holds no boot entry of pvectl"
    if isinstance(op, (FileWrite, FileRemove)) and not any(p.fullmatch(op.path) for p in PATHS):
        return f"would write {op.path}, which is no file that pvectl writes"
    if isinstance(op, VmCreate):
        secret = sorted({"cipassword", "cicustom"} & set(op.set))
        return f"holds the option {secret[0]} of VM {op.vmid}, which is a secret" if secret else ""
    if isinstance(op, VmSet):
        secret = sorted(SECRET_OPTIONS & {*op.set, *op.delete, *op.before})
        if secret:
            return f"holds the option {secret[0]} of VM {op.vmid}, which is a secret"
        unread = sorted({*op.set, *op.delete} - set(op.before))
        if unread:
            return f"does not say what {unread[0]} of VM {op.vmid} is now"
        if set(op.set) & set(op.delete):
            return f"sets and deletes the same option of VM {op.vmid}"
    return ""


def _is_for_confirmation(op: object) -> bool:
    return isinstance(op, (FileWrite, FileRemove)) or (isinstance(op, ActionRun) and op.name in _AT_CONFIRM)


def check_rights(changes: Iterable[Change], link: Link) -> None:
    """Raise where this session may not do a step: better before the first than in the middle."""
    has_root = link.session.euid == 0
    for change in changes:
        if change.privilege == "root-shell" and not has_root:
            raise PrivilegeMissing(
                f"Unable to do step {change.id} on {link.session.target}: it needs a root shell",
                "connect as root, or as a user with passwordless sudo",
            )
        if change.privilege == "ticket" and not link.pve.has_root:
            raise PrivilegeMissing(
                f"Unable to do step {change.id} on {link.session.target}: Proxmox leaves it to root@pam alone, "
                "and an API token is not root@pam",
                "connect as root, so that pvectl has a root shell for it, or use auth: ticket with root@pam",
            )


def check_privileges(plan: Plan, link: Link) -> None:
    """Raise PrivilegeMissing where a token lacks a privilege that a step or a guest of the plan needs.

    Where Proxmox does not tell what the token may do, each step finds out by itself.  The reboot is not the
    token's: apply reboots by its shell.
    """
    if link.pve.is_root:
        return
    try:
        held = link.pve.permissions()
    except PveAuthFailed:
        raise
    except PveError:
        return
    for what, needs in _needed(plan):
        asked = [need for need in needs if need.who == "token" and need.operation != "node.reboot"]
        lacking = missing(asked, held, "token")
        if lacking:
            raise _lacks(what, lacking[0], link)


def _needed(plan: Plan) -> Iterator[tuple[str, tuple[Need, ...]]]:
    for change, needs in plan_needs(plan):
        yield f"step {change.id}", needs
    for need in guest_needs(plan):
        yield need.operation, (need,)


def _lacks(what: str, need: Need, link: Link) -> PrivilegeMissing:
    first = need.privilege.split("|")[0]
    return PrivilegeMissing(
        f"Unable to do {what} on {link.session.target}: the API token lacks {need.privilege} on {need.path}; "
        "nothing was changed",
        f"give the user or token {first} on {need.path}; pvectl auth prints the commands for all that is missing",
        path=need.path,
        privilege=need.privilege,
    )


def check_stopped(plan: Plan, link: Link) -> None:
    """Raise StalePlan where a VM runs that the plan found stopped: its options would wait for a cold start."""
    touched = {c.operation.vmid for c in plan.changes if isinstance(c.operation, VmSet) and needs_stop(c.operation)}
    stops = {
        c.operation.vmid for c in plan.changes if isinstance(c.operation, ActionRun) and c.operation.name == "vm-stop"
    } | set(plan.stops_guests)
    running = [vmid for vmid in sorted(touched - stops) if link.pve.vm_status(vmid) == "running"]
    if running:
        raise StalePlan(
            f"Unable to apply the plan to {plan.host}: guests run that it found stopped",
            f"make a new plan with: pvectl plan {plan.host}",
            moved=tuple(f"vm/{vmid}: it is running" for vmid in running),
        )


def check_quorum(plan: Plan, link: Link) -> None:
    """Raise PveError where /etc/pve is read-only."""
    writes = any(isinstance(c.operation, (MappingPut, MappingDelete, VmSet, VmCreate)) for c in plan.changes)
    if writes and not link.pve.quorate():
        raise PveError(
            f"Unable to change Proxmox' objects on {link.session.target}: without quorum /etc/pve is read-only",
            "bring the other nodes back, then repeat the command",
        )
