"""Faults inside a guest, by name: from the next start of a VM on its guest has them.

Written into the guest's root folder after it was laid out, so that the shipped probe meets them where it would meet
real ones: in configuration space, ``/proc``, the kernel's log and the answers of the NVIDIA libraries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from provision.lab.guest_log import BAR_LINES, CLOSED_LINES
from provision.lab.guest_tree import LIBRARIES
from provision.lab.reset_faults import drop, locked

HMM_LINES = ("nvidia-uvm: devmem_alloc_pagemap:482 request_free_mem_region() err -34",)
LOST_LINES = (
    "NVRM: Xid (PCI:{bdf}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: GPU {bdf}: GPU has fallen off the bus.",
)
NOT_INITIALIZED = 3
ZERO = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
Answers = dict[str, Any]


def spoil(root: Path, names: Iterable[str]) -> None:
    """Bring faults into the guest whose root folder this is.  Names that are not known here are left to others."""
    for name in names:
        if name in GUEST_FAULTS:
            GUEST_FAULTS[name][1](root)


def _change(root: Path, act: Callable[[Answers], None]) -> None:
    path = root / LIBRARIES
    answers = json.loads(path.read_text("utf-8"))
    act(answers)
    path.write_text(json.dumps(answers, indent=1) + "\n", "utf-8")


def _say(root: Path, *lines: str) -> None:
    log = root / "dev/kmsg"
    text = log.read_text("utf-8")
    first = 1000 + text.count("\n")
    new = "".join(f"3,{first + n},{20_000_000 + n},-;{line}\n" for n, line in enumerate(lines))
    log.write_text(text + new, "utf-8")


def _gpus(root: Path) -> list[str]:
    """Guest addresses of the GPUs that the driver has."""
    answers: Answers = json.loads((root / LIBRARIES).read_text("utf-8"))
    return [gpu["bdf"] for gpu in answers["gpus"]]


def _granted(answers: Answers) -> list[str]:
    return [pair for pair, behavior in answers["pairs"].items() if behavior == "ok"]


def _mirror(answers: Answers) -> None:
    """What a GPU writes to a peer lands in a copy that only it sees; collectives get nothing by P2P."""
    answers["pairs"].update(dict.fromkeys(_granted(answers), "mirror"))
    answers["nccl"] = {"faults": [{"kind": "mirror"}]}


def _wrong(answers: Answers) -> None:
    answers["pairs"].update(dict.fromkeys(_granted(answers)[:1], "wrong-data"))


def _hang(answers: Answers) -> None:
    answers["pairs"].update(dict.fromkeys(_granted(answers)[:1], "hang"))


def _collective_hang(answers: Answers) -> None:
    answers["nccl"] = {"faults": [{"kind": "hang", "rank": 1, "p2p": True}]}


def _no_nccl(answers: Answers) -> None:
    answers["nccl"] = {"installed": False}


def _busy(answers: Answers) -> None:
    answers["processes"] = {"0": [{"pid": 4242, "kind": "compute", "mib": 81920}]}


def _lost(root: Path) -> None:
    """The last GPU falls off the bus after the driver took it."""
    bdfs = _gpus(root)
    if bdfs:
        _change(root, lambda answers: answers.update(lost=[len(bdfs) - 1]))
        _say(root, *(line.format(bdf=bdfs[-1]) for line in LOST_LINES))


def _closed(root: Path) -> None:
    """The closed kernel module is installed: it takes no GPU of Blackwell."""
    for bdf in _gpus(root):
        drop(root, bdf)
        device = (root / f"sys/bus/pci/devices/{bdf}/device").read_text("utf-8").strip().removeprefix("0x")
        _say(root, *(line.format(bdf=bdf, device=device) for line in CLOSED_LINES))
    version = root / "proc/driver/nvidia/version"
    if version.is_file():
        text = version.read_text("utf-8").replace("UNIX Open Kernel Module for x86_64", "UNIX x86_64 Kernel Module")
        version.write_text(text, "utf-8")


def _wpr2(root: Path) -> None:
    """The GSP of the last GPU does not start: its memory is still locked from the time before."""
    for bdf in _gpus(root)[-1:]:
        locked(root, bdf)


def _no_room(root: Path) -> None:
    """The guest's firmware found no room for the registers of the last GPU."""
    for bdf in _gpus(root)[-1:]:
        drop(root, bdf)
        resource = root / f"sys/bus/pci/devices/{bdf}/resource"
        resource.write_text(ZERO * resource.read_text("utf-8").count("\n"), "utf-8")
        _say(root, *(line.format(bdf=bdf) for line in BAR_LINES))


def _hmm(root: Path) -> None:
    """nvidia.ko works, nvidia_uvm does not: the kernel finds no address room for device memory (HMM and KASLR)."""
    _change(root, lambda answers: answers.update(cuda_error=NOT_INITIALIZED))
    _say(root, *HMM_LINES)


def _in_answers(act: Callable[[Answers], None]) -> Callable[[Path], None]:
    return lambda root: _change(root, act)


GUEST_FAULTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "guest-bar-missing": ("the guest's firmware finds no room for one GPU's registers", _no_room),
    "guest-busy": ("a server uses the guest's first GPU", _in_answers(_busy)),
    "guest-closed-module": ("the guest has the closed kernel module, which takes no Blackwell", _closed),
    "guest-collective-hang": ("pairs are right, and collectives over P2P hang", _in_answers(_collective_hang)),
    "guest-gpu-lost": ("one GPU falls off the bus under the guest's driver", _lost),
    "guest-hang": ("a granted transfer between two GPUs never ends", _in_answers(_hang)),
    "guest-hmm": ("CUDA does not start in the guest: HMM finds no address room", _hmm),
    "guest-mirror": ("granted writes to a peer land in a private copy: the peer never gets them", _in_answers(_mirror)),
    "guest-no-nccl": ("there is no NCCL in the guest", _in_answers(_no_nccl)),
    "guest-wpr2": ("the GSP of one GPU does not start in the guest", _wpr2),
    "guest-wrong-data": ("a granted transfer between two GPUs changes data", _in_answers(_wrong)),
}
"""What each does, from the next start of a VM on."""
