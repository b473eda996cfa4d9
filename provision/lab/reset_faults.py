"""GPUs that do not come back: at the n-th stop or start of a VM one of its GPUs fails, as real cards do.

Every fault is planned by name, ``KIND-at-N``: nothing happens before the N-th stop (or start, by its kind) that
follows.  What the host's kernel says stands in its log; what the guest sees is written into the guest's root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from provision.lab.guest_tree import LIBRARIES
from provision.lab.proxmox.faults import die
from provision.lab.proxmox.node import Node

NAME = re.compile(r"(reset-stuck|d3cold|wpr2|gpu-gone|guest-silent)-at-([1-9]\d{0,2})")
MEANING = {
    "reset-stuck-at-N": "at the N-th stop of a VM one of its GPUs does not come back from its reset",
    "d3cold-at-N": "at the N-th start of a VM one of its GPUs does not wake up: the start fails",
    "wpr2-at-N": "from the N-th start of a VM on its guest finds the GSP of one GPU still locked (WPR2)",
    "gpu-gone-at-N": "from the N-th start of a VM on its guest does not see one GPU on the bus",
    "guest-silent-at-N": "the guest of the N-th start of a VM does not come up",
}
AT_STOP = ("reset-stuck",)
STUCK_LINES = (
    "vfio-pci {bdf}: not ready 1023ms after FLR; waiting",
    "vfio-pci {bdf}: not ready 65535ms after FLR; giving up",
)
COLD_LINES = ("vfio-pci {bdf}: Unable to change power state from D3cold to D0, device inaccessible",)
WPR2_LINES = (
    "NVRM: GPU0 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
    "NVRM: GPU {bdf}: RmInitAdapter failed! (0x62:0x40:2028)",
    "NVRM: GPU {bdf}: rm_init_adapter failed, device minor number 0",
)


@dataclass
class Resets:
    """What is planned for one host, and which GPUs are broken by now."""

    node: Node
    planned: list[tuple[str, int]] = field(default_factory=list)
    """Kind, and how many stops or starts it still waits for."""
    broken: dict[str, str] = field(default_factory=dict)
    """Kind of the fault by the GPU's address on the host; it stays until the host starts cold."""
    silent: set[int] = field(default_factory=set)
    """VMs whose guest does not come up."""

    def plan(self, name: str) -> None:
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(name)
        self.planned.append((match[1], int(match[2])))

    def starting(self, vmid: int, devices: list[str]) -> None:
        """A VM starts with these functions.  Raises CallFailed where one of them is dead."""
        for kind in self._due(at_stop=False):
            self._break(kind, vmid, devices)
        dead = next((bdf for bdf in devices if self.broken.get(bdf) in ("reset-stuck", "d3cold")), None)
        if dead is not None:
            self.node.say(*(line.format(bdf=dead) for line in COLD_LINES))
            die(f"start failed: QEMU exited with code 1: vfio {dead}: failed to set up device")

    def stopped(self, vmid: int, devices: list[str]) -> None:
        self.silent.discard(vmid)
        for kind in self._due(at_stop=True):
            self._break(kind, vmid, devices)
            self.node.say(*(line.format(bdf=devices[0]) for line in STUCK_LINES))

    def _due(self, *, at_stop: bool) -> list[str]:
        """Count one stop or start; return the kinds whose turn it is."""
        mine = [(kind, left - 1) for kind, left in self.planned if (kind in AT_STOP) == at_stop]
        others = [(kind, left) for kind, left in self.planned if (kind in AT_STOP) != at_stop]
        self.planned = others + [(kind, left) for kind, left in mine if left]
        return [kind for kind, left in mine if not left]

    def _break(self, kind: str, vmid: int, devices: list[str]) -> None:
        if kind == "guest-silent":
            self.silent.add(vmid)
        elif devices:
            self.broken[devices[0]] = kind

    def spoil(self, guest_root: Path, addresses: dict[str, str]) -> None:
        """Let a guest see what is broken.  ``addresses``: the guest's address of each host function."""
        for host, guest in addresses.items():
            act = _IN_GUEST.get(self.broken.get(host, ""))
            if act is not None:
                act(guest_root, guest)

    def cold_start(self) -> None:
        self.broken.clear()
        self.silent.clear()


def locked(root: Path, bdf: str) -> None:
    """The driver finds the card and cannot start it."""
    drop(root, bdf)
    log = root / "dev/kmsg"
    lines = "".join(f"3,{90 + n},{9_000_000 + n},-;{line.format(bdf=bdf)}\n" for n, line in enumerate(WPR2_LINES))
    log.write_text(log.read_text("utf-8") + lines, "utf-8")


def _gone(root: Path, bdf: str) -> None:
    drop(root, bdf)
    (root / f"sys/bus/pci/devices/{bdf}").unlink()


def drop(root: Path, bdf: str) -> None:
    """Take one GPU from what the driver and its libraries show."""
    folder = root / f"proc/driver/nvidia/gpus/{bdf}"
    if folder.is_dir():
        (folder / "information").unlink()
        folder.rmdir()
    path = root / LIBRARIES
    answers = json.loads(path.read_text("utf-8"))
    kept = [number for number, gpu in enumerate(answers["gpus"]) if gpu["bdf"] != bdf]
    answers["gpus"] = [{**answers["gpus"][old], "index": new} for new, old in enumerate(kept)]
    answers["p2p"] = [[answers["p2p"][a][b] for b in kept] for a in kept]
    pairs = answers["pairs"]
    answers["pairs"] = {
        f"{a}-{b}": pairs[f"{old}-{other}"]
        for a, old in enumerate(kept)
        for b, other in enumerate(kept)
        if f"{old}-{other}" in pairs
    }
    path.write_text(json.dumps(answers, indent=1) + "\n", "utf-8")


_IN_GUEST: dict[str, Callable[[Path, str], None]] = {"wpr2": locked, "gpu-gone": _gone}
