"""Commands that only read: ``cat`` of /proc and /sys, ``dmesg``, and the reader of pvectl's test modules."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from provision.lab.commands.answer import Answer
from provision.lab.commands.context import Machinery
from provision.lab.proxmox.node import KERNEL_LOG
from provision.lab.rootfs import Rootfs
from provision.verify.modules.carry import carried, reader_source
from provision.verify.modules.reader import collect

CARRIED = ("python3", "-I", "-c")
BOOT_LINES = "[    0.000000] Linux version 6.14.11-4-pve (build@proxmox)\n[    0.412000] AMD-Vi: Interrupt remapping\n"


def cat(root: Path, argv: tuple[str, ...]) -> Answer:
    """Write files one after the other; ``--`` ends the options."""
    out, err = "", ""
    files = Rootfs(root)
    for path in (word for word in argv[1:] if word != "--"):
        text = files.read(path)
        out += text or ""
        err += "" if text is not None else f"cat: {path}: No such file or directory\n"
    return Answer(1 if err else 0, out, err)


def is_reader(argv: tuple[str, ...]) -> bool:
    """Whether this is the shipped reader, byte for byte."""
    return argv[:3] == CARRIED and argv[3:4] == (carried(reader_source()),)


def read(root: Path, argv: tuple[str, ...]) -> Answer:
    return Answer(0, json.dumps(collect(argv[4:], root=str(root))) + "\n")


def unwrapped(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command in ``sh -c COMMAND`` where it only reads, as pvectl's test modules send it; else ``argv``.

    There is no shell: anything else stays what it is, and is not found.
    """
    if len(argv) != 3 or argv[:2] != ("sh", "-c"):
        return argv
    try:
        words = tuple(shlex.split(argv[2]))
    except ValueError:
        return argv
    return words if reads_kernel(words) or words[:3] == CARRIED else argv


def reads_kernel(argv: tuple[str, ...]) -> bool:
    """Whether this is a ``cat`` of the kernel's own files; there is none of any other."""
    paths = [word for word in argv[1:] if word != "--"]
    return argv[0] == "cat" and bool(paths) and all(path.startswith(("/proc/", "/sys/")) for path in paths)


def dmesg(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    """The host's kernel log; options of form are not known."""
    return Answer(0, BOOT_LINES + (host.root.read(KERNEL_LOG) or ""))
