"""A virtual machine that runs OVMF up to its boot manager, and where the firmware put the BARs.

No operating system and no disk: ``info pci`` of QEMU's monitor is read once the firmware has spoken on its
serial port, which it does after it has placed every BAR.
"""

from __future__ import annotations

import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

QEMU = "qemu-system-x86_64"
UNPLACED = 0xFFFFFFFFFFFFFFFF
_PROMPT = b"(qemu) "
_SPOKEN = b"BdsDxe"
_BAR = re.compile(r"BAR(\d): (\d\d) bit (prefetchable )?memory at 0x([0-9a-f]+) \[0x([0-9a-f]+)\]")
_WINDOW = re.compile(r"prefetchable memory range \[0x([0-9a-f]+), 0x([0-9a-f]+)\]")


@dataclass(frozen=True)
class Firmware:
    code: Path
    variables: Path


@dataclass
class Seen:
    """One PCI function as QEMU shows it."""

    id: str = ""
    bus: int = 0
    slot: int = 0
    bars: dict[int, int] = field(default_factory=dict)
    """Address by index of the memory BARs; UNPLACED where the firmware gave none."""
    window: tuple[int, int] | None = None
    """First and last address of a bridge's prefetchable window; None where it is closed."""


def run(
    firmware: Firmware, cpu: str, devices: Sequence[str], extra: Sequence[str] = (), limit_s: int = 120
) -> dict[str, Seen]:
    """Return what the firmware made of ``devices`` (values of ``-device``), by their id."""
    with tempfile.TemporaryDirectory() as folder, _started(firmware, cpu, devices, extra, Path(folder)) as qemu:
        _wait_until_spoken(qemu, limit_s)
        return parse(_ask(Path(folder) / "monitor", "info pci"))


@contextmanager
def _started(
    firmware: Firmware, cpu: str, devices: Sequence[str], extra: Sequence[str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    shutil.copy(firmware.variables, folder / "vars.fd")
    argv = ["nice", "-n", "5", QEMU, "-nodefaults", "-no-user-config", "-accel", "tcg", "-machine", "q35"]
    argv += ["-cpu", cpu, "-m", "256", "-display", "none", "-serial", "stdio"]
    argv += ["-monitor", f"unix:{folder}/monitor,server=on,wait=off"]
    argv += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={firmware.code}"]
    argv += ["-drive", f"if=pflash,unit=1,format=raw,file={folder}/vars.fd"]
    for device in devices:
        argv += ["-device", device]
    qemu = subprocess.Popen(
        [*argv, *extra], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    try:
        yield qemu
    finally:
        qemu.kill()
        qemu.communicate()


def _wait_until_spoken(qemu: subprocess.Popen[bytes], limit_s: int) -> None:
    """Read the serial port until the boot manager writes to it."""
    assert qemu.stdout is not None
    end = time.monotonic() + limit_s
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(qemu.stdout, selectors.EVENT_READ)
        while _SPOKEN not in text:
            if not selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError(f"OVMF said nothing in {limit_s} s, only {text!r}")
            data = qemu.stdout.read(4096)
            if not data:
                assert qemu.stderr is not None
                raise RuntimeError(f"QEMU ended: {qemu.stderr.read().decode(errors='replace')}")
            text += data


def _ask(path: Path, command: str) -> str:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(30)
        monitor.connect(str(path))
        _until_prompt(monitor)
        monitor.sendall(command.encode() + b"\n")
        return _until_prompt(monitor)


def _until_prompt(monitor: socket.socket) -> str:
    data = b""
    while not data.endswith(_PROMPT):
        data += monitor.recv(65536)
    return data.decode(errors="replace")


def parse(text: str) -> dict[str, Seen]:
    """Read ``info pci``: every function that has an id."""
    found: dict[str, Seen] = {}
    seen = Seen()
    for line in text.replace("\r", "").splitlines():
        head = re.match(r"\s+Bus\s+(\d+), device\s+(\d+), function \d+:", line)
        if head:
            seen = Seen(bus=int(head[1]), slot=int(head[2]))
        elif bar := _BAR.search(line):
            seen.bars[int(bar[1])] = int(bar[4], 16)
        elif window := _WINDOW.search(line):
            first, last = int(window[1], 16), int(window[2], 16)
            seen.window = (first, last) if first <= last else None
        elif (name := re.search(r'id "(.+)"', line)) is not None:
            seen.id = name[1]
            found[seen.id] = seen
    return found
