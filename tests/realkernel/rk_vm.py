"""Start the test host in QEMU, reach it over SSH, stop it by its process id."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rk_failures import failure_in
from rk_image import HERE, Image

from provision.errors import RemoteError
from provision.remote.connect import connect
from provision.remote.session import Session, Target

MAC = "52:54:00:00:00:1c"
READY_LIMIT_S = 600.0
PROBE_LIMIT_S = 10.0
ALWAYS = "console=ttyS0,115200 quiet mitigations=off panic=-1 no_timer_check"
"""``no_timer_check``: under interrupt remapping the kernel panics where an emulator is late with the first ticks."""

BOOTS_AGAIN = 2
"""How often one host is booted again after a failure of the emulator; a later one is the test's failure."""
WATCH_EVERY_S = 1.0

INTEL_IOMMU = "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"
AMD_IOMMU = "amd-iommu,intremap=off"


@dataclass(frozen=True)
class Hardware:
    """What stands in the host beside its own disk, network and RNG; QEMU's words."""

    devices: tuple[str, ...]
    iommu: str | None = INTEL_IOMMU
    blockdevs: tuple[str, ...] = ()
    """Names of empty block devices that NVMe controllers among the devices use."""
    needs_stand_in: bool = False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Vm:
    """One boot of the host, or several where it reboots by itself."""

    image: Image
    hardware: Hardware
    folder: Path
    cmdline: str | None = None
    """Kernel parameters of a direct boot with the light init; ``None``: GRUB and systemd from the disk."""
    accel: str = "tcg"
    disk: Path | None = None
    """An overlay that keeps what is written; without one writes are lost at the end."""
    stand_in: Path | None = None
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    failures: list[str] = field(default_factory=list)
    """Failures of the emulator after which this host was booted again."""

    all_failures: ClassVar[list[str]] = []
    """Those of every host of this process, for the report at the end."""

    def __post_init__(self) -> None:
        self._power = threading.RLock()
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._know_host()
        self._power_on()
        self._ended.clear()
        self._watch = threading.Thread(target=self._watch_console, name="console", daemon=True)
        self._watch.start()

    def _power_on(self) -> None:
        words = ["nice", "-n", "5", "env"]
        if self.hardware.needs_stand_in:
            words.append(f"LD_PRELOAD={self.stand_in}")
        with (self.folder / "qemu.log").open("ab") as log:
            self.process = subprocess.Popen([*words, *self._argv()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _watch_console(self) -> None:
        """The host also reboots while a test waits for something else: nobody but this thread looks then."""
        while not self._ended.wait(WATCH_EVERY_S):
            self.boot_again()

    def boot_again(self) -> bool:
        """Boot anew where the console ends with a failure of the emulator, a few times.  Returns whether it did.

        Such a failure comes before the kernel has touched a disk, so that the disk is as the last boot left it.
        """
        with self._power:
            failure = failure_in(self.console())
            if failure is None or self._ended.is_set() or len(self.failures) == BOOTS_AGAIN:
                return False
            self.failures.append(failure.name)
            self.all_failures.append(failure.name)
            self._power_off()
            self._console_file.rename(self.folder / f"console-{len(self.failures)}.log")
            self._power_on()
            return True

    def is_alive(self) -> bool:
        """Whether it runs, or was booted again just now."""
        with self._power:
            return (self.process is not None and self.process.poll() is None) or self.boot_again()

    @property
    def _console_file(self) -> Path:
        return self.folder / "console.log"

    def wait_ready(self, limit: float = READY_LIMIT_S) -> float:
        """Wait until SSH greets.  Returns the seconds; raises RuntimeError where QEMU ends or time is up."""
        began = time.monotonic()
        while time.monotonic() - began < limit:
            if not self.is_alive():
                said = (self.folder / "qemu.log").read_text("utf-8", "replace") + self.console()
                raise RuntimeError(f"QEMU ended: {said[-2500:]}")
            if self._greets():
                return time.monotonic() - began
            time.sleep(0.2)
        raise RuntimeError(f"no SSH within {limit:.0f} s; the console says: {self.console()[-2000:]}")

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as link:
                link.settimeout(2)
                return link.recv(4) == b"SSH-"
        except OSError:
            return False

    def console(self) -> str:
        path = self._console_file
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def stop(self) -> None:
        with self._power:
            self._ended.set()
            self._power_off()
        if self._watch is not None:
            self._watch.join()

    def _power_off(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def _know_host(self) -> None:
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.image.host_key}\n", "ascii")

    def target(self) -> Target:
        return Target(
            name="testhost",
            kind="ssh",
            address="127.0.0.1",
            port=self.port,
            identity_file=str(self.image.client_key),
            known_hosts=str(self.known_hosts),
            connect_timeout=60,
        )

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Open pvectl's own session; sshd may still be loading when it greets."""
        session = _patiently(self.target())
        try:
            yield session
        finally:
            session.close()

    def _argv(self) -> list[str]:
        words = [
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
            *("-machine", "q35", "-accel", self.accel, "-cpu", "max", "-smp", "2,sockets=2", "-m", "1024"),
            *("-object", "memory-backend-ram,id=m0,size=512M", "-object", "memory-backend-ram,id=m1,size=512M"),
            *("-numa", "node,nodeid=0,memdev=m0,cpus=0", "-numa", "node,nodeid=1,memdev=m1,cpus=1"),
            *("-serial", f"file:{self._console_file}", "-pidfile", str(self.folder / "pid")),
        ]
        if self.hardware.iommu:
            words += ["-device", self.hardware.iommu]
        snapshot = "off" if self.disk else "on"
        drive = f"if=none,id=root,format=qcow2,cache=unsafe,snapshot={snapshot},file={self.disk or self.image.disk}"
        network = f"user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        words += ["-drive", drive, "-device", "virtio-blk-pci,drive=root,addr=0x1e"]
        words += ["-netdev", network, "-device", f"virtio-net-pci,netdev=net0,mac={MAC},addr=0x1c,romfile="]
        words += ["-object", "rng-random,id=rng0,filename=/dev/urandom"]
        words += ["-device", "virtio-rng-pci,rng=rng0,addr=0x1b"]
        for name in self.hardware.blockdevs:
            words += ["-blockdev", f"driver=null-co,node-name={name},size=67108864,read-zeroes=on"]
        for device in self.hardware.devices:
            words += ["-device", device]
        if self.cmdline is not None:
            words += ["-no-reboot", "-kernel", str(self.image.kernel), "-initrd", str(self.image.light_initrd)]
            words += ["-append", f"{ALWAYS} {self.cmdline}".strip()]
        return words


def _patiently(target: Target) -> Session:
    for _ in range(4):
        try:
            return connect(target)
        except RemoteError:
            time.sleep(2)
    return connect(target)


def overlay_of(image: Image, path: Path) -> Path:
    """Return a disk of its own above the image's."""
    run = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(image.disk), str(path)]
    subprocess.run(run, check=True, capture_output=True)
    return path


def build_stand_in(folder: Path) -> Path:
    """Compile the library that gives QEMU devices with NVIDIA's ids."""
    target = folder / "stand_in_gpu.so"
    source = HERE / "stand_in_gpu.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", str(target), str(source)], check=True)
    return target


def choose_accel(image: Image) -> str:
    """Return ``kvm`` only where a kernel really boots with it; opening /dev/kvm proves nothing."""
    given = os.environ.get("PVECTL_KERNEL_ACCEL")
    if given:
        return given
    return "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and _boots_by_kvm(image) else "tcg,thread=multi"


def _boots_by_kvm(image: Image) -> bool:
    words: Sequence[str] = (
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-cpu", "max", "-m", "512", "-nodefaults"),
        *("-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", str(image.kernel)),
        *("-initrd", str(image.initrd), "-append", "console=ttyS0 panic=-1 rdinit=/bin/true"),
    )
    try:
        result = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return b"Run /bin/true as init process" in result.stdout
