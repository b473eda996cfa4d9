"""vfio-pci from boot on, device by device.

Each device gets a rule with its address and its ids; only where every NVIDIA GPU of the host goes to a guest
are host drivers kept away as well.  A device that another driver holds now needs a reboot: taking it away from
a running driver can hang.  One without a driver needs none, since Proxmox binds it when the guest starts.
"""

from __future__ import annotations

from typing import Any, Literal

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.plan.context import Context, Notes, Outcome
from provision.plan.model import ActionRun, Change
from provision.plan.planners.file_change import file_change, present_text

UDEV_FILE = "/etc/udev/rules.d/60-pvectl-vfio.rules"
MODULES_FILE = "/etc/modules-load.d/pvectl.conf"
MODPROBE_FILE = "/etc/modprobe.d/pvectl.conf"
FILES = (UDEV_FILE, MODULES_FILE, MODPROBE_FILE)

MODULES = ("vfio", "vfio_iommu_type1", "vfio_pci")
GPU_DRIVERS = ("nouveau", "nova_core", "nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidiafb")
_COMPANION_DRIVERS = {0x0403: "snd_hda_intel", 0x0C03: "xhci_pci"}


def plan_binding(context: Context) -> Outcome:
    """Return the files that bind the guests' devices to vfio-pci at boot, or remove them where none is wished."""
    notes = Notes()
    per_device = context.policies.binding == "per-device" and bool(context.bound)
    wanted = _contents(context) if per_device else dict.fromkeys(FILES)
    reboot = _needs_reboot(context) if per_device else ()
    for path, content in wanted.items():
        if present_text(context, path) != content:
            notes.changes.append(_file(context, path, content, needs_reboot=bool(reboot)))
    notes.changes += _actions(tuple(change.id for change in notes.changes))
    _explain(context, notes, reboot, per_device=per_device)
    return notes.outcome()


def _contents(context: Context) -> dict[str, str | None]:
    is_whole = {g.bdf for g in context.model.gpus()} <= {f.bdf for f in context.bound}
    after_vfio = sorted(
        {_COMPANION_DRIVERS[f.class_code >> 8] for f in context.bound if f.class_code >> 8 in _COMPANION_DRIVERS}
    )
    return {
        UDEV_FILE: context.render("host/vfio-udev.rules.j2", {"functions": [_row(f) for f in context.bound]}),
        MODULES_FILE: context.render("host/vfio-modules.conf.j2", {"modules": MODULES}),
        MODPROBE_FILE: context.render(
            "host/vfio-modprobe.conf.j2", {"blacklist": GPU_DRIVERS, "after_vfio": after_vfio}
        )
        if is_whole
        else None,
    }


def _row(function: PciFunction) -> dict[str, Any]:
    vendor, device = function.subsystem_vendor, function.subsystem_device
    is_known = isinstance(vendor, int) and isinstance(device, int)
    return {
        "bdf": function.bdf,
        "vendor": f"{function.vendor:04x}",
        "device": f"{function.device:04x}",
        "subsystem_vendor": f"{vendor:04x}" if is_known else None,
        "subsystem_device": f"{device:04x}" if is_known else None,
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


def _file(context: Context, path: str, content: str | None, *, needs_reboot: bool) -> Change:
    titles = {
        UDEV_FILE: f"Bind {len(context.bound)} devices to vfio-pci at boot ({path})",
        MODULES_FILE: f"Load the vfio modules at boot ({path})",
        MODPROBE_FILE: f"Keep host drivers off NVIDIA GPUs ({path})",
    }
    reasons = {
        UDEV_FILE: "policies.binding is per-device: no host driver touches a device that belongs to a guest; the rule "
        "names address and ids, so that another card at that address stays with the host",
        MODULES_FILE: "vfio-pci must be there before the rule can take effect",
        MODPROBE_FILE: "every NVIDIA GPU of this host goes to guests",
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


def _explain(context: Context, notes: Notes, reboot: tuple[str, ...], *, per_device: bool) -> None:
    _warn_of_display(context, notes)
    if not per_device:
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


def _warn_of_display(context: Context, notes: Notes) -> None:
    display = context.model.console.boot_vga
    if isinstance(display, str) and any(f.bdf == display for f in context.bound):
        notes.warnings.append(
            f"{display} is the display that firmware draws on: the host's screen goes dark when the guest starts. "
            'If the start fails with "can\'t reserve", add initcall_blacklist=sysfb_init to the kernel command line'
        )
