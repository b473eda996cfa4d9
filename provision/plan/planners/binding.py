"""vfio-pci from boot on, device by device or by model.

Each device gets a rule with its address and its ids, or vfio-pci gets the ids where every card of a model goes to
guests; only where no NVIDIA device stays with the host are host drivers kept away as well.  A device that another
driver holds now needs a reboot: taking it away from a running driver can hang.  One without a driver needs none,
since Proxmox binds it when the guest starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.plan.binding_rules import (
    HOST_DRIVERS,
    ids_by_model,
    is_without_host_use,
    must_stay_powered,
    rival_claims,
)
from provision.plan.context import Context, Notes, Outcome
from provision.plan.model import ActionRun, Change
from provision.plan.planners.file_change import file_change, present_text

UDEV_FILE = "/etc/udev/rules.d/60-pvectl-vfio.rules"
MODULES_FILE = "/etc/modules-load.d/pvectl.conf"
MODPROBE_FILE = "/etc/modprobe.d/pvectl.conf"
FILES = (UDEV_FILE, MODULES_FILE, MODPROBE_FILE)

MODULES = ("vfio", "vfio_iommu_type1", "vfio_pci")
IDLE_D3 = "disable_idle_d3=1"
GPU_DRIVERS = ("nouveau", "nova_core", "nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidiafb")
_COMPANION_DRIVERS = {0x0403: "snd_hda_intel", 0x0C03: "xhci_pci"}


def plan_binding(context: Context) -> Outcome:
    """Return the files that bind the guests' devices to vfio-pci at boot, or remove them where none is wished."""
    notes = Notes()
    at_boot = context.policies.binding != "none" and bool(context.bound)
    wanted = _contents(context) if at_boot else dict.fromkeys(FILES)
    reboot = _needs_reboot(context) if at_boot else ()
    sleepers = _sleepers(context, wanted)
    for path, content in wanted.items():
        if present_text(context, path) != content:
            notes.changes.append(_file(context, path, content, needs_reboot=bool(reboot or sleepers)))
    notes.changes += _actions(tuple(change.id for change in notes.changes))
    _explain(context, notes, reboot, sleepers, at_boot=at_boot)
    _expect_power(context, notes, wanted)
    return notes.outcome()


def _contents(context: Context) -> dict[str, str | None]:
    by_model = context.policies.binding == "model"
    rows = [_row(f) for f in context.bound]
    return {
        UDEV_FILE: None if by_model else context.render("host/vfio-udev.rules.j2", {"functions": rows}),
        MODULES_FILE: context.render("host/vfio-modules.conf.j2", {"modules": MODULES}),
        MODPROBE_FILE: _modprobe(context, by_model=by_model),
    }


def _modprobe(context: Context, *, by_model: bool) -> str | None:
    """What the modules are told; ``None`` where the host keeps an NVIDIA device and nothing is bound by model."""
    ids = ids_by_model(context.name, context.model, context.bound) if by_model else ()
    is_whole = is_without_host_use(context.model, context.bound)
    if not (ids or is_whole):
        return None
    after_vfio = sorted(
        {_COMPANION_DRIVERS[f.class_code >> 8] for f in context.bound if f.class_code >> 8 in _COMPANION_DRIVERS}
    )
    values = {
        "ids": ids,
        "disable_idle_d3": any(must_stay_powered(f) for f in context.bound),
        "blacklist": GPU_DRIVERS if is_whole else (),
        "after_vfio": [*after_vfio, *(() if is_whole else sorted(HOST_DRIVERS))],
    }
    return context.render("host/vfio-modprobe.conf.j2", values)


def _row(function: PciFunction) -> dict[str, Any]:
    vendor, device = function.subsystem_vendor, function.subsystem_device
    is_known = isinstance(vendor, int) and isinstance(device, int)
    return {
        "bdf": function.bdf,
        "vendor": f"{function.vendor:04x}",
        "device": f"{function.device:04x}",
        "subsystem_vendor": f"{vendor:04x}" if is_known else None,
        "subsystem_device": f"{device:04x}" if is_known else None,
        "stays_powered": must_stay_powered(function),
    }


def _needs_reboot(context: Context) -> tuple[str, ...]:
    """Devices that another driver holds now, or of which nobody knows."""
    held = []
    for function in context.bound:
        driver = function.driver
        if isinstance(driver, Unknown):
            held.append(f"{function.bdf} (driver not known)")
        elif driver not in (None, "vfio-pci"):
            held.append(f"{function.bdf} ({driver})")
    return tuple(held)


def _sleepers(context: Context, wanted: Mapping[str, str | None]) -> tuple[str, ...]:
    """Devices that may lose their power now and are not to: rule and option take effect at a boot."""
    kept = [function for function in context.bound if must_stay_powered(function)]
    by_rule = [f.bdf for f in kept if f.d3cold_allowed is True] if wanted[UDEV_FILE] is not None else []
    by_option = wanted[MODPROBE_FILE] is not None and context.model.kernel.vfio_stays_awake is False
    return tuple(f.bdf for f in kept) if by_option else tuple(by_rule)


def _file(context: Context, path: str, content: str | None, *, needs_reboot: bool) -> Change:
    titles = {
        UDEV_FILE: f"Bind {len(context.bound)} devices to vfio-pci at boot ({path})",
        MODULES_FILE: f"Load the vfio modules at boot ({path})",
        MODPROBE_FILE: f"Tell vfio-pci its cards and keep host drivers off them ({path})"
        if context.policies.binding == "model"
        else f"Keep host drivers off NVIDIA GPUs ({path})",
    }
    reasons = {
        UDEV_FILE: "policies.binding is per-device: no host driver touches a device that belongs to a guest; the rule "
        "names address and ids, so that another card at that address stays with the host",
        MODULES_FILE: "vfio-pci must be there before the rule can take effect",
        MODPROBE_FILE: _modprobe_reason(context),
    }
    gone = content is None
    return file_change(
        context,
        id=f"binding.{ {UDEV_FILE: 'udev', MODULES_FILE: 'modules', MODPROBE_FILE: 'modprobe'}[path] }",
        path=path,
        content=content,
        title=f"Remove {path}" if gone else titles[path],
        reason="not wanted any more" if gone else reasons[path],
        needs_reboot=needs_reboot and not gone,
    )


def _modprobe_reason(context: Context) -> str:
    reasons = []
    if context.policies.binding == "model":
        reasons.append("policies.binding is model, and every card of these models goes to guests")
    if is_without_host_use(context.model, context.bound):
        reasons.append("every NVIDIA GPU of this host goes to guests")
    if any(must_stay_powered(f) for f in context.bound):
        reasons.append(
            "cards of this generation are reported to stay in D3 or to fail a reset after it: disable_idle_d3 keeps "
            "them awake while no guest has them, d3cold_allowed keeps their power on"
        )
    return "\n".join(reasons)


def _actions(ids: tuple[str, ...]) -> list[Change]:
    """Return what makes the files known: the rules to the running udev, all of them to the early boot."""
    actions = []
    if "binding.udev" in ids:
        reason = "devices that appear from now on follow the rules"
        actions.append(_action("binding.reload", "udev-reload", "Reload the udev rules", reason, ("binding.udev",)))
    if ids:
        reason = "the early boot reads its own copy of these files"
        title = "Run update-initramfs -u -k all"
        actions.append(_action("binding.initramfs", "update-initramfs", title, reason, ids))
    return actions


def _action(
    id: str, name: Literal["udev-reload", "update-initramfs"], title: str, reason: str, after: tuple[str, ...]
) -> Change:
    return Change(
        id=id,
        title=title,
        operation=ActionRun(name=name),
        diff="",
        reason=reason,
        privilege="root-shell",
        undo="the same again, after the files are as before",
        depends_on=after,
    )


def _explain(
    context: Context, notes: Notes, reboot: tuple[str, ...], sleepers: tuple[str, ...], *, at_boot: bool
) -> None:
    _warn_of_display(context, notes)
    notes.warnings += rival_claims(context.model, context.bound) if context.bound else ()
    if not at_boot:
        if context.bound and not notes.changes:
            notes.keep("driver binding", "policies.binding is none: Proxmox binds the devices when the guest starts")
        return
    for function in context.bound:
        notes.expect("driver", function.bdf, "vfio-pci")
    if notes.changes and reboot:
        notes.warnings.append(
            f"Held by a host driver now, free after the reboot: {', '.join(reboot)}; "
            "taking a device from a running driver can hang"
        )
    elif notes.changes and sleepers:
        notes.warnings.append(
            f"May lose their power while no guest has them, until the reboot: {', '.join(sleepers)}; "
            "the settings that keep them on take effect at a boot"
        )
    elif notes.changes:
        notes.keep(
            "reboot for the binding",
            "no device is held by another driver now; Proxmox binds them when the guest starts",
        )
    elif reboot:
        notes.warnings.append(
            f"Not on vfio-pci although the rules are there: {', '.join(reboot)}; a reboot lets the rules take effect"
        )
    else:
        notes.keep("driver binding", f"the rules for {len(context.bound)} devices are there")


def _expect_power(context: Context, notes: Notes, wanted: Mapping[str, str | None]) -> None:
    """Expect what the files say of sleeping cards; both take effect at a boot."""
    if wanted[UDEV_FILE] is not None:
        for function in context.bound:
            if must_stay_powered(function):
                notes.expect("d3cold", function.bdf, "0")
    if IDLE_D3 in (wanted[MODPROBE_FILE] or ""):
        notes.expect("idle-d3", "host", "disabled")


def _warn_of_display(context: Context, notes: Notes) -> None:
    display = context.model.console.boot_vga
    if not (isinstance(display, str) and any(f.bdf == display for f in context.bound)):
        return
    boot = context.boot
    if any("sysfb_init" in token for token in (*(t.token for t in boot.added), *str(boot.configured).split())):
        notes.warnings.append(
            f"{display} is the display that firmware draws on: with initcall_blacklist=sysfb_init the host's screen "
            "goes dark at the boot, before the login"
        )
        return
    notes.warnings.append(
        f"{display} is the display that firmware draws on: the host's screen goes dark when the guest starts. "
        'If the start fails with "can\'t reserve", say with policies.console how you reach the host without it: '
        "the plan then adds initcall_blacklist=sysfb_init"
    )
