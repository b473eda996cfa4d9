"""GRUB's environment block on a lab host: what Linux writes there, and what GRUB itself reads and clears at boot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from provision.lab.machine import Machine

GRUBENV = "boot/grub/grubenv"
_HEAD = "# GRUB Environment Block\n"
_SIZE = 1024


def read(root: Path) -> dict[str, str]:
    """Return the variables, none where there is no block."""
    path = root / GRUBENV
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {line.partition("=")[0]: line.partition("=")[2] for line in lines if "=" in line and line[0] != "#"}


def write(root: Path, variables: Mapping[str, str]) -> None:
    """Write the block: always of one size, filled up with number signs."""
    text = _HEAD + "".join(f"{name}={value}\n" for name, value in variables.items())
    path = root / GRUBENV
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.ljust(_SIZE, "#"), encoding="utf-8")


def boot(machine: Machine, root: Path) -> None:
    """Clear ``next_entry`` as GRUB does before it boots: from a plain partition, for it cannot write anywhere else."""
    variables = read(root)
    if machine.boot.storage == "ext4" and variables.pop("next_entry", ""):
        write(root, variables)
