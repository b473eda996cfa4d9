"""Where shipped data lies: beside the package in a wheel, one level up in a checkout."""

from __future__ import annotations

from pathlib import Path


def resource_path(name: str) -> Path:
    """Return the folder or file ``name`` (``templates``) that belongs to this very package.

    A checkout wins over a copy inside the package: an editable install leaves a stale copy there.
    Raises ``FileNotFoundError`` where the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    checkout = package.parent / name
    if (package.parent / "pyproject.toml").is_file() and checkout.exists():
        return checkout
    inside = package / name
    if inside.exists():
        return inside
    raise FileNotFoundError(f"{name} is missing from this installation of pvectl ({package})")
