"""The initial RAM disk of a lab host: what it holds of ``/etc/modprobe.d``, as text."""

from __future__ import annotations

import json
from pathlib import Path


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
