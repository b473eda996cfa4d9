"""The state of one simulated Proxmox node: truth is in the files of its root."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from provision.lab.proxmox.access import Access
from provision.lab.proxmox.faults import CallFailed, die
from provision.lab.proxmox.tasks import Task, Tasks
from provision.lab.proxmox.vm_store import VmStore, vmids
from provision.lab.rootfs import Rootfs

RUN = "/run/qemu-server"
RESERVATIONS = f"{RUN}/pci-id-reservations"
QUORUM_LOST = "/run/pvectl-lab/no-quorum"
KERNEL_LOG = "/run/pvectl-lab/kernel.log"
MAPPING_LOCK = "file-mapping_pci_cfg"


class Node:
    """One node and its running VMs.

    ``on_vm`` is called with a VMID and whether it runs now, after each start and stop;
    ``on_reboot`` when somebody asks for a reboot.
    """

    def __init__(self, root: Rootfs, name: str, *, version: str = "9.2.11", qemu: str = "11.0.0-2") -> None:
        self.root = root
        self.name = name
        self.version = version
        self.qemu = qemu.partition("-")[0]
        self.repoid = "14a22df35955d97d"
        self.access = Access()
        self.tasks = Tasks(name)
        self.on_vm: Callable[[int, bool], None] = lambda _vmid, _running: None
        self.on_reboot: Callable[[], None] = lambda: None
        self.on_start: Callable[[int, list[str]], None] = lambda _vmid, _devices: None
        """Before QEMU starts with these functions of the host; may raise CallFailed."""
        self.on_stop: Callable[[int, list[str]], None] = lambda _vmid, _devices: None
        self.stubborn: set[int] = set()
        """VMs whose guest ignores a shutdown request."""
        self.held_locks: set[str] = set()
        """Locks that somebody else holds: paths of lock files, and the name of the mappings' cluster lock."""
        self.stalled: list[Callable[[], object]] | None = None
        """Calls that the privileged daemon has not carried out yet, ``None`` while it answers."""
        self.unbindable: set[str] = set()
        """Devices that refuse vfio-pci."""
        self.fingerprint = ""
        """SHA-256 of the API's certificate, ``AA:BB:...``."""
        self.certificate_pem = ""
        self.booted = time.monotonic()
        self.defer: Callable[[Callable[[], None]], object] | None = None
        """Runs a task's work a moment later, so that its first poll finds it running; at once where ``None``."""
        self.random = random.Random(0)  # noqa: S311 - the order of writes, not a secret

    def vmids(self) -> list[int]:
        return vmids(self.root, self.name)

    def vm(self, vmid: int) -> VmStore:
        return VmStore.load(self.root, self.name, vmid)

    def pid(self, vmid: int) -> int | None:
        """Return the process id of a running VM, ``None`` where it is stopped."""
        text = self.root.read(f"{RUN}/{vmid}.pid")
        return int(text) if text is not None and text.strip().isdigit() else None

    def running(self) -> list[int]:
        return [vmid for vmid in self.vmids() if self.pid(vmid) is not None]

    def mark_running(self, vmid: int, pid: int) -> None:
        self.root.write(f"{RUN}/{vmid}.pid", f"{pid}\n")
        self.on_vm(vmid, True)

    def mark_stopped(self, vmid: int) -> None:
        self.root.remove(f"{RUN}/{vmid}.pid")
        devices = [bdf for bdf, owner in self.reserved().items() if owner == vmid]
        self.release(vmid)
        self.on_stop(vmid, devices)
        self.on_vm(vmid, False)

    def reserved(self) -> dict[str, int]:
        """Return the devices that running VMs hold, by address."""
        lines = (line.split() for line in (self.root.read(RESERVATIONS) or "").splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) >= 2}

    def reserve(self, vmid: int, devices: list[str], pid: int) -> None:
        """Record that a VM holds devices.  Raises CallFailed where another VM does."""
        held = self.reserved()
        for bdf in devices:
            if held.get(bdf, vmid) != vmid:
                die(f"PCI device '{bdf}' already in use by VMID '{held[bdf]}'")
        self._write_reservations(
            {bdf: owner for bdf, owner in held.items() if owner != vmid} | dict.fromkeys(devices, vmid), pid
        )

    def release(self, vmid: int) -> None:
        held = {bdf: owner for bdf, owner in self.reserved().items() if owner != vmid}
        self._write_reservations(held, 0)

    def _write_reservations(self, held: dict[str, int], pid: int) -> None:
        lines = (f"{bdf} {owner} pid:{self.pid(owner) or pid}\n" for bdf, owner in held.items())
        self.root.write(RESERVATIONS, "".join(lines))

    def run_task(self, kind: str, ident: str, user: str, work: Callable[[Task], None]) -> Task:
        """Start a worker; its failure is its exit status."""
        task = self.tasks.create(kind, ident, user)

        def run() -> None:
            if task.exitstatus is not None:
                return
            try:
                work(task)
            except CallFailed as error:
                task.fail(error.message)
            except Exception:
                task.finish("unexpected status")
                raise
            if task.exitstatus is None:
                task.finish("OK")

        if self.defer is None:
            run()
        else:
            self.defer(run)
        return task

    def say(self, *lines: str) -> None:
        """Write lines to the kernel's log."""
        now = time.monotonic() - self.booted
        text = "".join(f"[{now:12.6f}] {line}\n" for line in lines)
        self.root.write(KERNEL_LOG, (self.root.read(KERNEL_LOG) or "") + text)

    def uptime(self) -> int:
        return int(time.monotonic() - self.booted)

    def next_pid(self) -> int:
        return 100_000 + self.random.randrange(50_000)

    def is_quorate(self) -> bool:
        return not self.root.exists(QUORUM_LOST)

    def is_local(self, name: str) -> bool:
        return name in (self.name, "localhost")

    @contextmanager
    def mapping_lock(self) -> Iterator[None]:
        """The cluster lock of pci.cfg: refused without quorum."""
        if not self.is_quorate():
            die(f"cfs-lock '{MAPPING_LOCK}' error: no quorum!")
        if MAPPING_LOCK in self.held_locks:
            die(f"cfs-lock '{MAPPING_LOCK}' error: got lock request timeout")
        yield

    def vm_lock(self, vmid: int) -> None:
        """Take the lock file of a VM.  Raises CallFailed where somebody else holds it for longer than Proxmox waits."""
        path = f"/var/lock/qemu-server/lock-{vmid}.conf"
        if path in self.held_locks:
            die(f"can't lock file '{path}' - got timeout")

    def answer_again(self) -> None:
        """End a stall: what was asked meanwhile is carried out now."""
        waiting, self.stalled = self.stalled or [], None
        for work in waiting:
            work()

    def power_off(self) -> None:
        """What a reboot does to what is not on disk: VMs, reservations, tasks under way."""
        for vmid in self.running():
            self.mark_stopped(vmid)
        self.tasks.lose_running()
