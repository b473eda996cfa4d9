"""Disks of a VM by their options: how large one is, and whether one is what was asked for."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(?:^|,)size=(\d+(?:\.\d+)?)([KMGT]?)(?:,|$)")
_NEW: Final = re.compile(r"(?P<storage>[^:,=]+):(?:\d+(?:\.\d+)?|cloudinit)(?:,(?P<rest>.*))?")
_MADE: Final = re.compile(r"(?P<storage>[^:,=]+):(?P<volume>[^,]+)(?:,(?P<rest>.*))?")


def size_of(option: str) -> int | None:
    """Return the bytes of a disk (``local-lvm:vm-100-disk-0,size=200G``), ``None`` where the option names no size."""
    found = _SIZE.search(option)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None


def is_made_as(now: str, asked: str) -> bool:
    """Whether ``now`` is the volume that came of asking for a new one (``local-lvm:1,efitype=4m``).

    Proxmox puts the volume's name and size in the place of what was asked; storage and other options stay.
    """
    new, made = _NEW.fullmatch(asked), _MADE.fullmatch(now)
    if new is None or made is None or _NEW.fullmatch(now) or new["storage"] != made["storage"]:
        return False
    return _rest(new["rest"]) == _rest(made["rest"])


def _rest(text: str | None) -> list[str]:
    dropped = ("size=", "import-from=", "media=cdrom")
    return sorted(part for part in (text or "").split(",") if part and not part.startswith(dropped))
