"""Faults of a lab's machine and of the files on its disk, by name.

Faults of running servers (credentials, connections, speed) are those of :mod:`provision.lab.runtime_faults`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provision.errors import UsageError
from provision.lab import breakage
from provision.lab.boot import boot
from provision.lab.commands.pct import STATE
from provision.lab.guest_faults import GUEST_FAULTS
from provision.lab.ha import RESOURCES
from provision.lab.machine import Machine

PCI_CFG = "etc/pve/mapping/pci.cfg"
CONTAINER = 190


@dataclass(frozen=True)
class Fault:
    """``act`` changes files below the root; a fault without one changes hardware and boots anew."""

    name: str
    what: str
    applies_to: Callable[[Machine], bool]
    act: Callable[[Machine, Path], None] | None = None


def _always(_: Machine) -> bool:
    return True


def _has_pool(machine: Machine) -> bool:
    return bool(machine.pools)


def _has_vm(machine: Machine) -> bool:
    return bool(machine.vms)


def _has_gpu(machine: Machine) -> bool:
    return bool(machine.gpus)


def _has_serial_pair(machine: Machine) -> bool:
    return len(machine.gpus) > 1 and all(gpu.dsn and gpu.id for gpu in machine.gpus[:2])


def _has_guest(machine: Machine) -> bool:
    return bool(machine.guests) and _has_gpu(machine)


def _in_guest(name: str) -> Callable[[Machine, Path], None]:
    return lambda _machine, root: breakage.break_guest(root, name)


def _uses_grub(machine: Machine) -> bool:
    return machine.boot.loader == "grub"


def _stale_mapping(_: Machine, root: Path) -> None:
    path = root / PCI_CFG
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(_with_other_group(line) for line in lines), encoding="utf-8")


def _with_other_group(line: str) -> str:
    if not line.startswith("\tmap "):
        return line
    fields = line.rstrip("\n").split(",")
    moved = [_moved(field) if field.startswith("iommugroup=") else field for field in fields]
    return ",".join(moved) + "\n"


def _moved(field: str) -> str:
    return f"iommugroup={int(field.removeprefix('iommugroup=')) + 3}"


def _mapping_edited(machine: Machine, root: Path) -> None:
    """Somebody adds a mapping in the web interface: the file's digest is another, no entry of ours is touched."""
    path = root / PCI_CFG
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    added = f"added-by-hand\n\tmap id=8086:1572,node={machine.node},path=0000:00:1f.6,subsystem-id=8086:0007\n\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + added, encoding="utf-8")


def _mapping_damaged(_: Machine, root: Path) -> None:
    """Someone's editor cut the last entry: Proxmox drops it at the next read."""
    path = root / PCI_CFG
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith("\tmap "))
    lines[last] = lines[last].replace(",path=", ",pa th=")
    path.write_text("".join(lines), encoding="utf-8")


def _vm_locked(machine: Machine, root: Path) -> None:
    vmid = min(machine.vms)
    path = root / f"etc/pve/nodes/{machine.node}/qemu-server/{vmid}.conf"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    before = [line for line in lines if line < "lock:"]
    path.write_text("".join([*before, "lock: backup\n", *lines[len(before) :]]), encoding="utf-8")


def _cmdline_lost(_: Machine, root: Path) -> None:
    """Firmware starts another disk's boot loader: whatever is written, the old command line comes back."""
    breakage.keep_cmdline(root, (root / "proc/cmdline").read_text(encoding="utf-8").strip())


def _container_running(machine: Machine, root: Path) -> None:
    path = root / f"etc/pve/nodes/{machine.node}/lxc/{CONTAINER}.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("arch: amd64\nhostname: web\nmemory: 512\nonboot: 1\nostype: debian\n", encoding="utf-8")
    state = root / STATE.lstrip("/") / str(CONTAINER)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.touch()


def _ha_managed(machine: Machine, root: Path) -> None:
    path = root / RESOURCES.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"vm: {min(machine.vms)}\n\tstate started\n", encoding="utf-8")


def _ignored(name: str) -> Callable[[Machine, Path], None]:
    return lambda _machine, root: breakage.ignore(root, name)


def _grub_broken(_: Machine, root: Path) -> None:
    path = root / "etc/default/grub.d/99-local.cfg"
    path.write_text('GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT mitigations=off\n', encoding="utf-8")


FAULTS: tuple[Fault, ...] = (
    Fault("acs-hidden", "firmware hides the ports' ACS: IOMMU groups are larger", _always),
    Fault(
        "cmdline-lost",
        "the machine boots with the old kernel command line, whatever is written",
        _always,
        _cmdline_lost,
    ),
    Fault("container-running", "a container runs on the host", _always, _container_running),
    Fault(
        "d3cold-ignored",
        "from the next boot on what udev writes to d3cold_allowed has no effect",
        _has_gpu,
        _ignored("d3cold-ignored"),
    ),
    Fault("gpu-missing", "one GPU is gone from its slot", _has_gpu),
    Fault("gpu-swapped", "the first two GPUs have changed places", _has_serial_pair),
    Fault(
        "grub-broken", "a file in /etc/default/grub.d has an open quote: update-grub fails", _uses_grub, _grub_broken
    ),
    *(
        Fault(name, f"from the next start of a VM on {what}", _has_guest, _in_guest(name))
        for name, (what, _act) in GUEST_FAULTS.items()
    ),
    Fault("ha-managed", "the first VM is under high availability", _has_vm, _ha_managed),
    Fault(
        "idle-d3-ignored",
        "from the next boot on vfio-pci is loaded without its option disable_idle_d3",
        _has_gpu,
        _ignored("idle-d3-ignored"),
    ),
    Fault("iommu-off", "the IOMMU is switched off in firmware", _always),
    Fault("link-narrow", "the first GPU came up with four lanes", _has_gpu),
    Fault(
        "links-ignored",
        "from the next boot on network interfaces get the kernel's names, whatever .link files say",
        _always,
        _ignored("links-ignored"),
    ),
    Fault("mapping-damaged", "the last entry of the mapping file no longer parses", _has_pool, _mapping_damaged),
    Fault("mapping-edited", "somebody adds a mapping: the file's digest changes", _always, _mapping_edited),
    Fault("rebar-off", "Resizable BAR is switched off in firmware", _has_gpu),
    Fault("renumber", "a card was added in front: the buses of what stands behind it move", _always),
    Fault("stale-mapping", "the IOMMU groups of every mapping entry have moved", _has_pool, _stale_mapping),
    Fault("vm-locked", "the first VM is locked by a backup", _has_vm, _vm_locked),
)


def summaries() -> dict[str, str]:
    """Return what each fault does, by name."""
    return {fault.name: fault.what for fault in FAULTS}


def break_machine(machine: Machine, root: Path, name: str) -> None:
    """Bring one fault into an installed and booted lab; a change of hardware boots it anew.

    Raises :class:`UsageError` for a fault that does not exist or does not fit the machine.
    """
    fault = next((fault for fault in FAULTS if fault.name == name), None)
    if fault is None:
        known = ", ".join(sorted(summaries()))
        raise UsageError(
            f"Unable to break lab machine {machine.name}: there is no fault {name}", f"take one of {known}"
        )
    if not fault.applies_to(breakage.altered(machine, root)):
        raise UsageError(
            f"Unable to break lab machine {machine.name}: {name} does not fit it ({fault.what})",
            "take another machine or another fault",
        )
    if fault.act is not None:
        fault.act(machine, root)
        return
    breakage.change_hardware(root, name)
    boot(machine, root, first=False)
