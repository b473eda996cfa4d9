"""What to try when a GPU does not come back, the mildest first.

Sources: Linux, Documentation/ABI/testing/sysfs-bus-pci (reset, reset_method, remove, rescan); NVIDIA
open-gpu-kernel-modules, kernel_gsp.c for WPR2; reports of users about cards that only a power cycle brings back.
"""

from __future__ import annotations

from provision.host.quarantine import Fault

NOTICE = (
    "Some cards do not come back after a VM stops: no VM can use them before the host has been without power. "
    "This was reported for Blackwell GPUs above all, and a test like this is how it shows."
)
_WHO = "BDF"


def advice(fault: Fault, bdf: str | None, vmid: int) -> tuple[str, ...]:
    """Return the steps for one fault; ``bdf`` is the GPU's address on the host, ``None`` where it is not known."""
    device = f"/sys/bus/pci/devices/{bdf or _WHO}"
    release = f"once it works again: pvectl verify --release {bdf or _WHO}"
    steps = {
        "stop": _stop(vmid),
        "reset": (_GRACEFUL, *_method(device), _rescan(device), _REBOOT, _COLD, release),
        "power": (_AWAKE, _rescan(device), _REBOOT, _COLD, release),
        "start": (
            f"read the whole task: pvesh get /nodes/NODE/tasks --vmid {vmid}",
            *_method(device),
            _rescan(device),
            _REBOOT,
            _COLD,
            release,
        ),
        "guest": (
            f"look at the VM's console: qm terminal {vmid}, or the web interface",
            "a guest with much memory and large BARs boots for minutes: say how long with --boot-timeout",
        ),
        "gsp": (_GRACEFUL, *_method(device), _rescan(device), _REBOOT, _COLD, release),
        "gpus": (
            "read the guest's kernel log: dmesg | grep -e NVRM -e Xid",
            *_method(device),
            _rescan(device),
            _REBOOT,
            _COLD,
            release,
        ),
        "error": (f"see in which state the VM is: qm status {vmid}",),
    }
    return steps[fault]


_GRACEFUL = (
    "graceful stop: let the guest shut down with its driver unloaded (stop what uses the GPUs and "
    "nvidia-persistenced, then modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia); never qm stop"
)
_AWAKE = (
    "keep it awake: options vfio-pci disable_idle_d3=1 in /etc/modprobe.d, and d3cold_allowed 0; pvectl plan does both"
)
_REBOOT = "reboot the host: its firmware resets the slots; it helps some cards, and not others"
_COLD = "cold power cycle: systemctl poweroff, take the power from the host for half a minute, switch it on"


def _stop(vmid: int) -> tuple[str, ...]:
    return (
        f"look why the guest does not shut down: its ACPI power button or the guest agent; qm terminal {vmid}",
        f"qm stop {vmid} pulls the plug: the driver cannot unload the GSP, which is how cards get stuck",
    )


def _method(device: str) -> tuple[str, ...]:
    text = (
        f"reset method, with the VM stopped: cat {device}/reset_method; echo 1 > {device}/reset; "
        f"where flr does not help and the GPU is alone below its port: echo bus > {device}/reset_method, and again"
    )
    return (text,)


def _rescan(device: str) -> str:
    return f"bus reset by removal: echo 1 > {device}/remove; echo 1 > /sys/bus/pci/rescan"
