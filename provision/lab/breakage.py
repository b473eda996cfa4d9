"""What is broken about a lab's hardware, kept beside its root folder so that every later boot knows.

``broken.json`` names the changes of hardware, and the command line that a stubborn boot loader keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.lab import variants
from provision.lab.machine import Machine

HARDWARE: Mapping[str, Callable[[Machine], Machine]] = {
    "acs-hidden": variants.without_acs,
    "gpu-missing": variants.without_gpu,
    "gpu-swapped": variants.with_swapped_gpus,
    "iommu-off": variants.without_iommu,
    "link-narrow": variants.with_narrow_link,
    "rebar-off": variants.with_small_bars,
    "renumber": variants.renumbered,
}


def _file(root: Path) -> Path:
    return root.parent / "broken.json"


def _read(root: Path) -> dict[str, Any]:
    path = _file(root)
    state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return state


def _write(root: Path, state: Mapping[str, Any]) -> None:
    _file(root).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def forget(root: Path) -> None:
    """Mend everything: a fresh machine."""
    _file(root).unlink(missing_ok=True)


def change_hardware(root: Path, name: str) -> None:
    """Remember one change of hardware; it counts from the next boot on."""
    state = _read(root)
    names = [*state.get("hardware", []), name]
    _write(root, {**state, "hardware": list(dict.fromkeys(names))})


def keep_cmdline(root: Path, cmdline: str) -> None:
    """From now on every boot gets this command line, whatever stands in the boot loader's files."""
    _write(root, {**_read(root), "cmdline": cmdline})


def kept_cmdline(root: Path) -> str | None:
    value: str | None = _read(root).get("cmdline")
    return value


def altered(machine: Machine, root: Path) -> Machine:
    """Return the machine as it stands now, with every change of hardware in the order in which they came."""
    for name in _read(root).get("hardware", []):
        machine = HARDWARE[name](machine)
    return machine
