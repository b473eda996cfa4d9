"""What the plan says of the way back: the dead-man, what it cannot catch, and the guests that do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.model import BootOnce, FileRemove, FileWrite, Plan

GENERATED = frozenset({"update-grub", "boot-refresh", "update-initramfs"})


def with_way_back(plan: Plan, model: HostModel, policies: Policies, *, no_once: str = "") -> Plan:
    """Return the plan with its dead-man, where it changes what a boot reads.

    ``no_once`` says why the new command line has no boot entry of its own.
    """
    if not any(change.needs_reboot and _is_boot(change.operation) for change in plan.changes):
        return plan
    minutes = policies.boot.confirm_within
    lines = (*_one_shot(plan, no_once), _dead_man(minutes), *_onboot(plan, model), _limits(plan, model))
    return plan.model_copy(update={"confirm_within": minutes, "way_back": lines})


def _is_boot(operation: object) -> bool:
    return isinstance(operation, (FileWrite, FileRemove, BootOnce)) or getattr(operation, "name", "") in GENERATED


def _one_shot(plan: Plan, no_once: str) -> Iterator[str]:
    """Say which mechanism goes back first, or why the boot loader cannot."""
    if plan.one_shot is not None:
        yield (
            "Two mechanisms act. The boot loader: it takes the new kernel command line once, from an entry of its own, "
            "and any boot after that one is the old default again, also where the kernel never got as far as systemd. "
            "The dead-man: it takes back everything else too, where systemd runs and nobody confirms."
        )
    elif no_once:
        yield f"One mechanism acts, the dead-man: there is no one-shot boot entry, since {no_once}."


def _dead_man(minutes: int) -> str:
    return (
        f"A unit on the host waits {minutes} minutes after the boot for a confirmation (policies.boot.confirm_within). "
        "Without one it restores the previous boot set-up and the mapping entries that belong to it, shuts guests "
        "down and reboots once. pvectl apply confirms by itself when it is connected again and IOMMU, command line, "
        "drivers and mappings are as planned. Where you reboot the host yourself, the time runs from that boot: "
        "run pvectl apply --resume or pvectl confirm in time, or let the host confirm with --confirm local."
    )


def _onboot(plan: Plan, model: HostModel) -> Iterator[str]:
    """Name guests with onboot whose devices the plan touches: Proxmox starts them before anybody has confirmed."""
    touched = {row.mapping for row in plan.gpus if row.mapping} | {row.mapping_now for row in plan.gpus}
    gpus = {row.bdf for row in plan.gpus}
    for vm in known(model.proxmox.vms, ()):
        uses = any(slot.mapping in touched or f"{slot.host}" in gpus for slot in vm.hostpci)
        if uses and vm.node == plan.basis.node and vm.config.get("onboot") == "1":
            yield (
                f"VM {vm.vmid} starts with the host (onboot) and has devices of this plan: it may run before the "
                "confirmation, and goes down again where there is none."
            )


def _limits(plan: Plan, model: HostModel) -> str:
    has_bmc = model.console.has_bmc
    way = "over the BMC" if has_bmc is True else "on the console"
    if isinstance(has_bmc, Unknown):
        way = "over the BMC or on the console"
    panic = "panic=30 on the command line makes a kernel that panics boot again instead of standing still"
    if plan.one_shot is not None:
        return (
            "What they cannot catch: a kernel that hangs stays hung until somebody resets the host "
            f"{way}, and boots the old default then; {panic}. Drivers, modules and udev rules belong to both entries: "
            "what breaks by them before systemd runs, breaks in the old entry too."
        )
    return (
        "It cannot act where the kernel stops before systemd runs: there is no one-shot boot entry, the new set-up is "
        f"the default. Have the host's boot menu at hand {way} (key e edits the command line for one boot); {panic}."
    )
