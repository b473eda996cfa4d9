"""Start, stop and shutdown of a VM: what Proxmox checks, in its order, and what a start leaves in sysfs."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

from provision.lab import hardware
from provision.lab.proxmox import formats
from provision.lab.proxmox.devices import Log, Slot, choose, slots
from provision.lab.proxmox.faults import CallFailed, die
from provision.lab.proxmox.mapping_store import MappingStore
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.tasks import Task
from provision.lab.proxmox.vm_checks import check_bridges, check_machine, check_memory, command_warnings, memory_mib
from provision.lab.proxmox.vm_store import VmStore, path_of


def start(node: Node, vmid: int, task: Task) -> None:
    """Run a start to its end and finish its task."""
    try:
        warned = _start(node, vmid, task)
    except CallFailed as error:
        task.fail(error.message)
        return
    task.finish(f"WARNINGS: {warned}" if warned else "OK")


def _start(node: Node, vmid: int, task: Task) -> int:
    if f"/var/lock/qemu-server/lock-{vmid}.conf" in node.held_locks:
        task.log.append("trying to acquire lock...")
    node.vm_lock(vmid)
    store = node.vm(vmid)
    for warning in store.warnings:
        _log_lines(task.log, warning)
    _refuse(node, store)
    if store.pending or store.pending_delete:
        store.apply_pending()
        store.save(node.root)
    hook = store.live.get("hookscript")
    if hook:
        die(f"hookscript error for {vmid} on pre-start: script '{hook}' does not exist\n\n")
    log: Log = lambda text: _log_lines(task.log, text)  # noqa: E731 - one line says it
    held = {bdf for bdf, owner in node.reserved().items() if owner != vmid}
    warned = command_warnings(store, log)
    chosen = choose(slots(node, store.live, log), held)
    check_machine(node, store.live)
    check_memory(node, store.live)
    check_bridges(node, store.live)
    devices = [bdf for slot in chosen for bdf in slot.chosen]
    node.reserve(vmid, devices, task.pid)
    try:
        for slot in chosen:
            _prepare(node, slot)
        node.on_start(vmid, devices)
        _qemu(node, store.live, chosen, log)
    except CallFailed:
        node.release(vmid)
        raise
    node.mark_running(vmid, task.pid + 4)
    return warned


def _log_lines(log: list[str], text: str) -> None:
    log.extend(text.split("\n"))


def _refuse(node: Node, store: VmStore) -> None:
    if store.live.get("template") == "1":
        die("you can't start a vm if it's a template")
    if "lock" in store.live:
        die(f"VM is locked ({store.live['lock']})")
    if node.pid(store.vmid) is not None:
        die(f"VM {store.vmid} already running")


def _prepare(node: Node, slot: Slot) -> None:
    if not hardware.has_iommu(node.root):
        die("cannot prepare PCI pass-through, IOMMU not present")
    if slot.options.get("driver") == "keep":
        return
    for bdf in slot.chosen:
        _bind_group(node, bdf)


def _bind_group(node: Node, bdf: str) -> None:
    """Bind every member of a device's group but bridges to vfio-pci, as Proxmox does, host devices too."""
    found = hardware.device(node.root, bdf)
    if found is None:
        die(f"no pci device info for device '{bdf}'")
    if found.group is None:
        die(f"can't unbind/bind PCI group to VFIO '{bdf}'")
    for member in hardware.group_members(node.root, found.group):
        peer = hardware.device(node.root, member)
        if peer is None or peer.is_bridge or peer.driver == "vfio-pci":
            continue
        if member in node.unbindable:
            die(f"Cannot bind {member} to vfio")
        hardware.bind(node.root, member, "vfio-pci")


def _qemu(node: Node, config: dict[str, str], chosen: list[Slot], log: Log) -> None:
    """Refuse what QEMU refuses: memory that is not there, wrong ``args``."""
    meminfo = re.search(r"^MemTotal:\s+(\d+) kB", node.root.read("/proc/meminfo") or "", re.MULTILINE)
    complaint = None
    if meminfo and memory_mib(config) * 1024 > int(meminfo[1]):
        complaint = "cannot set up guest memory 'pc.ram': Cannot allocate memory"
    complaint = complaint or _args_complaint(config.get("args", ""), chosen)
    if complaint:
        log(f"kvm: {complaint}")
        die("start failed: QEMU exited with code 1")


VFIO_PROPERTIES = re.compile(r"x-nv-gpudirect-clique|x-no-.*|x-pci-.*|rombar|romfile|bootindex|x-vga|enable-migration")


def _args_complaint(args: str, chosen: list[Slot]) -> str | None:
    try:
        words = shlex.split(args)
    except ValueError:
        return None
    devices = {ident: bdf for slot in chosen for ident, bdf in _device_ids(slot)}
    for option, value in pairwise([*words, ""]):
        if option == "-set":
            complaint = _set_complaint(value, devices)
        elif option.startswith("-") and not re.fullmatch(r"-[a-z][a-z0-9_-]*", option):
            complaint = f"{option}: invalid option"
        elif option == "-nonsense":
            complaint = "-nonsense: invalid option"
        else:
            complaint = None
        if complaint:
            return complaint
    return None


def _set_complaint(value: str, devices: dict[str, str]) -> str | None:
    match = re.fullmatch(r"device\.([^.]+)\.(.+?)=(.*)", value)
    if match is None:
        return f"-set {value}: invalid argument"
    ident, name, number = match.groups()
    if ident not in devices:
        return f'-set {value}: there is no device "{ident}" defined'
    where = f"-device vfio-pci,host={devices[ident]},id={ident},bus=ich9-pcie-port-1,addr=0x0"
    if not VFIO_PROPERTIES.fullmatch(name):
        return f"{where}: Property 'vfio-pci.{name}' not found"
    if name == "x-nv-gpudirect-clique" and not (number.isdigit() and int(number) <= 15):
        return f"{where}: Property x-nv-gpudirect-clique: valid range 0-15"
    return None


def _device_ids(slot: Slot) -> list[tuple[str, str]]:
    if len(slot.chosen) == 1:
        return [(f"hostpci{slot.index}", slot.chosen[0])]
    return [(f"hostpci{slot.index}.{number}", bdf) for number, bdf in enumerate(slot.chosen)]


def stop(node: Node, vmid: int, task: Task) -> None:
    """Stop a VM hard; one that does not run is stopped already."""
    if not node.root.exists(path_of(node.name, vmid)):
        task.finish(f"unable to find configuration file for VM {vmid} on node '{node.name}'")
        return
    _end(node, vmid, task)
    task.finish("OK")


def shutdown(node: Node, vmid: int, task: Task, *, force: bool = False) -> None:
    """Ask the guest to power off; a stubborn guest does not, then ``force`` kills it."""
    if node.pid(vmid) is not None and vmid in node.stubborn:
        if not force:
            task.finish("VM quit/powerdown failed - got timeout")
            return
        task.log.append("VM still running - terminating now with SIGTERM")
    _end(node, vmid, task)
    task.finish("OK")


def reset(node: Node, vmid: int, task: Task) -> None:
    """Press the reset button of a running VM: QEMU stays, its devices are reset, the guest boots anew."""
    if node.pid(vmid) is None:
        die(f"VM {vmid} not running\n")
    devices = [bdf for bdf, owner in node.reserved().items() if owner == vmid]
    node.on_stop(vmid, devices)
    node.on_start(vmid, devices)
    node.on_vm(vmid, True)
    task.finish("OK")


def _end(node: Node, vmid: int, task: Task) -> None:
    """Take a VM down.  Pending changes of a stopped VM become live at once; devices stay with vfio-pci."""
    if node.pid(vmid) is None:
        return
    store = node.vm(vmid)
    known = MappingStore.load(node.root).sections
    for index in range(16):
        mapping = formats.split(store.live.get(f"hostpci{index}", ""), "host").get("mapping")
        if mapping and mapping not in known:
            task.log.append(f"PCI device mapping not found for '{mapping}'")
    node.mark_stopped(vmid)
    if store.pending or store.pending_delete:
        store.apply_pending()
        store.save(node.root)
