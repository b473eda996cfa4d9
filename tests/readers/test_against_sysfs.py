"""lspci run over a simulated machine must give the model that sysfs of the same machine gives.

Where the text does not carry a fact it may be Unknown; a fact that it gives must be the same.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from provision.capture.collect import collect_host
from provision.evidence import Frozen, Unknown
from provision.host.assemble import assemble
from provision.lab.boot import boot
from provision.lab.install import install
from provision.lab.machine import load_machine, machine_names
from provision.pci.model import ConfigSpace, PciFunction
from provision.readers.read import Reading, read
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer

pytestmark = pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci (pciutils) is not installed")

TEXT_ONLY = {"description", "length"}
"""What sysfs does not have, and what a text cannot tell: how many bytes could be read."""
OPTIONS = ("-nn", "-nnk", "-nnv", "-vvv", "-Dnnvvvx", "-t", "-tv", "-PP", "-xxx", "-xxxx", "-nnvvvxxxx")


def sysfs(root: Path) -> tuple[PciFunction, ...]:
    near, far = socket.socketpair()

    def serve() -> None:
        with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
            bootstrap.serve(stdin, stdout, "marker", root=str(root), runner=lambda *_args: (127, b"", b"", False))

    thread = threading.Thread(target=serve)
    thread.start()
    session = AgentSession.start(SocketChannel(near), Peer("lab"), "marker")
    try:
        return assemble(collect_host(session)).pci
    finally:
        session.close()
        thread.join(10)


def lspci(root: Path, options: str) -> str:
    argv = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci", options]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    ).stdout


def differences(truth: Frozen, found: Frozen) -> list[str]:
    """Facts that the text gives and that are not those of sysfs."""
    wrong = []
    for name in type(truth).model_fields:
        real, given = getattr(truth, name), getattr(found, name)
        if name in TEXT_ONLY or isinstance(given, Unknown) or given in (0xFFFF, "?", ""):
            continue
        if name == "class_code":
            real, given = (real >> 8, given >> 8) if given >> 16 != 0xFF else (0, 0)
        if isinstance(real, ConfigSpace) and isinstance(given, ConfigSpace):
            wrong += differences(real, given)
        elif real != given and not (name == "link" and _disagrees_with_itself(truth)):
            wrong.append(f"{name}: {real} and {given}")
    return wrong


def _disagrees_with_itself(fn: Frozen) -> bool:
    """The simulated machine's sysfs may show another link width than its registers."""
    return isinstance(fn, PciFunction) and isinstance(fn.config, ConfigSpace) and fn.link != fn.config.link


@pytest.mark.parametrize("machine", machine_names())
def test_lspci_gives_what_sysfs_gives(machine: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    install(load_machine(machine), root)
    boot(load_machine(machine), root, first=True)
    truth = {fn.bdf: fn for fn in sysfs(root)}
    for device in (root / "sys/bus/pci/devices").iterdir():
        (device / "irq").write_text("0\n")
    for options in OPTIONS:
        reading = read(lspci(root, options))
        assert isinstance(reading, Reading), options
        assert reading.is_whole
        (listing,) = reading.listings
        assert [fn.bdf for fn in listing.functions] == list(truth), options
        wrong = [f"{options}: {fn.bdf} {what}" for fn in listing.functions for what in differences(truth[fn.bdf], fn)]
        assert not wrong, Counter(line.split()[2] for line in wrong)
