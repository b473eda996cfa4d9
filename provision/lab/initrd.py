"""The initial RAM disk of a lab host: what it holds of ``/etc/modprobe.d``, as text.

The lab's drivers bind in the early boot, so that what ``modprobe.d`` says counts as the last update-initramfs
copied it: a plan that forgets update-initramfs does not have the effect that it promises.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def path_of(release: str) -> str:
    return f"boot/initrd.img-{release}"


def image(root: Path) -> str:
    """Return the image that update-initramfs would write now: a snapshot of the module settings."""
    folder = root / "etc/modprobe.d"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    settings = {str(p.relative_to(folder)): p.read_text(encoding="utf-8", errors="replace") for p in files}
    listed = root / "etc/initramfs-tools/modules"
    modules = listed.read_text(encoding="utf-8", errors="replace") if listed.is_file() else ""
    return json.dumps({"pvectl-lab": "initramfs", "modprobe.d": settings, "modules": modules}, indent=1) + "\n"


def settings(image: Path) -> dict[str, str]:
    """Return the texts of ``/etc/modprobe.d`` in an image, by name; none where there is no image."""
    return dict(_content(image).get("modprobe.d", {}))


def modules(image: Path) -> str:
    """Return the text of ``/etc/initramfs-tools/modules`` as the image was made from it."""
    return str(_content(image).get("modules", ""))


def _content(image: Path) -> dict[str, Any]:
    return dict(json.loads(image.read_text(encoding="utf-8"))) if image.is_file() else {}
