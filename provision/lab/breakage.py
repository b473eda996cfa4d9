"""What is broken about a lab's hardware, kept beside its root folder so that every later boot knows.

``broken.json`` names the changes of hardware, the command line that a stubborn boot loader keeps, and the files of
which the early boot has an old copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.lab import link_names, variants
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


def ignore(root: Path, name: str) -> None:
    """From the next boot on one kind of file has no effect: the early boot has an old copy of its own."""
    _write(root, {**_read(root), "ignored": sorted({*ignored(root), name})})


def ignored(root: Path) -> frozenset[str]:
    """Return the faults that keep files from having an effect."""
    return frozenset(_read(root).get("ignored", []))


def break_guest(root: Path, name: str) -> None:
    """From the next start of a VM on its guest has this fault (:mod:`provision.lab.guest_faults`)."""
    _write(root, {**_read(root), "guest": list(dict.fromkeys([*guest_faults(root), name]))})


def guest_faults(root: Path) -> tuple[str, ...]:
    """Return the names of the guests' faults, in the order in which they came."""
    return tuple(_read(root).get("guest", []))


def keep_cmdline(root: Path, cmdline: str) -> None:
    """From now on every boot gets this command line, whatever stands in the boot loader's files."""
    _write(root, {**_read(root), "cmdline": cmdline})


def kept_cmdline(root: Path) -> str | None:
    value: str | None = _read(root).get("cmdline")
    return value


def altered(machine: Machine, root: Path) -> Machine:
    """Return the machine as a boot finds it now: changes of hardware in their order, and names of interfaces."""
    for name in _read(root).get("hardware", []):
        machine = HARDWARE[name](machine)
    return link_names.renamed(machine, root, by_links="links-ignored" not in ignored(root))
