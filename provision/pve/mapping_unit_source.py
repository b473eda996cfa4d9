"""The program that repairs mappings at boot, as the text that is written to a host."""

from __future__ import annotations

from importlib.resources import files

PROGRAM: str = files("provision.pve").joinpath("mapping_unit.py").read_text(encoding="utf-8")
