"""Lab machines, installed in a folder, booted on demand, and read by the shipped agent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.capture.collect import collect_host
from provision.capture.model import Capture
from provision.lab import esp, grub, initrd
from provision.lab.boot import BootFacts, boot, kernel_state
from provision.lab.install import install
from provision.lab.kernel import KernelState
from provision.lab.machine import Machine, load_machine
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer

MACHINES = ("desktop-single-gpu", "epyc-8x-rtxpro6000", "switch-4x4", "workstation-shared-nic")


class Built:
    """A machine installed in a root folder; it boots when somebody asks for the facts of a boot."""

    def __init__(self, machine: Machine, root: Path) -> None:
        self.machine = machine
        self.root = root
        root.mkdir(parents=True)
        install(machine, root)
        self._facts: BootFacts | None = None

    @property
    def facts(self) -> BootFacts:
        """Facts of the last boot; the first is made now."""
        if self._facts is None:
            self._facts = boot(self.machine, self.root, first=True)
        return self._facts

    def reboot(self) -> BootFacts:
        self._facts = boot(self.machine, self.root, first=self._facts is None)
        return self._facts

    def state(self) -> KernelState:
        """What a boot would bring, without writing /sys."""
        return kernel_state(self.machine, self.root)[1]

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def update_grub(self) -> None:
        from provision.lab.install import root_device

        self.write(grub.GRUB_CFG, grub.generate(self.root, root_device(self.machine)))

    def update_initramfs(self) -> None:
        for release in grub.kernels(self.root):
            self.write(initrd.path_of(release), initrd.image(self.root))
        if esp.uuids(self.root):
            assert esp.refresh(self.root).rc == 0

    def device(self, bdf: str) -> Path:
        return self.root / "sys/bus/pci/devices" / bdf

    def group(self, bdf: str) -> int | None:
        link = self.device(bdf) / "iommu_group"
        return int(link.readlink().name) if link.is_symlink() else None

    def capture(self) -> Capture:
        """Read the root as a host, with a runner that has no command."""
        assert self.facts
        near, far = socket.socketpair()

        def serve() -> None:
            with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
                bootstrap.serve(stdin, stdout, "marker", root=str(self.root), runner=_no_command)

        thread = threading.Thread(target=serve)
        thread.start()
        session = AgentSession.start(SocketChannel(near), Peer("lab"), "marker")
        try:
            return collect_host(session)
        finally:
            session.close()
            thread.join(10)


def _no_command(argv: object, stdin: object, timeout: object, env: object) -> tuple[int, bytes, bytes, bool]:
    return 127, b"", b"command not found\n", False


@pytest.fixture
def build(tmp_path: Path) -> Callable[[Machine | str], Built]:
    """Install a machine, by name or as a value."""
    made: list[Built] = []

    def make(machine: Machine | str) -> Built:
        value = load_machine(machine) if isinstance(machine, str) else machine
        built = Built(value, tmp_path / f"lab{len(made)}" / "root")
        made.append(built)
        return built

    return make


@pytest.fixture(params=MACHINES)
def built(request: pytest.FixtureRequest, build: Callable[[Machine | str], Built]) -> Built:
    """Each shipped machine in turn."""
    return build(str(request.param))


@pytest.fixture
def epyc(build: Callable[[Machine | str], Built]) -> Built:
    return build("epyc-8x-rtxpro6000")
