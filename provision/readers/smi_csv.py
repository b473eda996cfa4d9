"""``nvidia-smi --query-gpu=... --format=csv`` and ``nvidia-smi -L``: one line a GPU."""

from __future__ import annotations

import csv
import re
from typing import Final

from provision.readers.mention import Mention
from provision.readers.smi_model import SmiGpu, bdf_of

_LIST = re.compile(r"\s*GPU (?P<index>\d{1,3}): (?P<name>\S.*?) \(UUID: (?P<uuid>GPU-[0-9A-Fa-f-]+)\)")
_ROW = re.compile(r"\s*(?P<index>\d{1,3}), (?P<name>(?:NVIDIA|Tesla|Quadro|GeForce|GRID)\b[^,]{2,60})(?:, |$)")
_COLUMN = re.compile(r"[a-z][\w.]*(?: \[[^\]]{1,8}\])?")
_LONGEST = 20_000

_FACT_OF: Final = {
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.device_id": "device_id",
    "pci.sub_device_id": "subsystem_id",
    "pcie.link.gen.current": "link_gen_current",
    "pcie.link.gen.gpucurrent": "link_gen_current",
    "pcie.link.gen.max": "link_gen_max",
    "pcie.link.gen.gpumax": "link_gen_gpu_max",
    "pcie.link.gen.hostmax": "link_gen_host_max",
    "pcie.link.width.current": "link_width_current",
    "pcie.link.width.max": "link_width_max",
    "memory.total": "framebuffer_mib",
    "memory.used": "framebuffer_used_mib",
    "pstate": "performance_state",
    "mig.mode.current": "mig",
    "ecc.mode.current": "ecc",
    "persistence_mode": "persistence",
    "addressing_mode": "addressing_mode",
    "vbios_version": "vbios",
    "power.limit": "power_limit_w",
    "temperature.gpu": "temperature_c",
    "gpu_recovery_action": "recovery_action",
    "fabric.state": "fabric_state",
    "fabric.status": "fabric_status",
    "reset_status.reset_required": "reset_required",
}
_KNOWN = frozenset({*_FACT_OF, "index", "driver_version", "pci.bus_id", "gpu_bus_id", "count", "timestamp"})

_OF_OTHERS = frozenset({"pid", "retired_pages.address"})
"""Columns of the queries about processes and pages: their rows are no GPUs."""


def is_list_line(line: str) -> bool:
    return _LIST.match(line) is not None


def is_row(line: str) -> bool:
    """Whether a line is a row without a header: its index and a name that NVIDIA gives."""
    return _ROW.match(line) is not None


def is_header(line: str) -> bool:
    return bool(_columns(line))


def _columns(line: str) -> tuple[str, ...]:
    """Return the names of the columns, without units; empty where the line is no header of GPUs."""
    if "," not in line or len(line) > _LONGEST:
        return ()
    words = [word.strip() for word in line.split(",")]
    if not all(_COLUMN.fullmatch(word) for word in words):
        return ()
    names = tuple(word.split(" ", 1)[0] for word in words)
    return names if sum(1 for name in names if name in _KNOWN) >= 2 else ()


class CsvRows:
    """Takes lines in order; a header names the columns of the rows below it."""

    def __init__(self) -> None:
        self.gpus: list[SmiGpu] = []
        self.driver: str | None = None
        self._names: tuple[str, ...] = ()

    def take(self, number: int, line: str) -> None:
        if match := _LIST.match(line):
            self._add(number, int(match["index"]), None, {"name": match["name"], "uuid": match["uuid"]})
        elif names := _columns(line):
            self._names = names
        elif self._names and line.count(",") + 1 == len(self._names):
            self._row(number, next(csv.reader([line[:_LONGEST]], skipinitialspace=True), []))
        elif match := _ROW.match(line):
            self._add(number, int(match["index"]), None, {"name": match["name"]})
        elif line.strip():
            self._names = ()

    def _row(self, number: int, values: list[str]) -> None:
        row = dict(zip(self._names, (value.strip() for value in values), strict=False))
        if _OF_OTHERS & set(row):
            return
        if not {"name", "gpu_name", "index", "pci.bus_id"} & set(row):
            return
        driver = row.get("driver_version", row.get("kmd_version", ""))
        self.driver = self.driver or (driver if driver[:1].isdigit() else None)
        index = row.get("index", "")
        facts = {fact: row[column] for column, fact in _FACT_OF.items() if column in row}
        bus = bdf_of(row.get("pci.bus_id", row.get("gpu_bus_id", "")))
        self._add(number, int(index[:6]) if index.isdecimal() else None, bus, facts)

    def _add(self, line: int, index: int | None, bdf: str | None, facts: dict[str, str]) -> None:
        mentions = {fact: Mention(line=line, text=value) for fact, value in facts.items()}
        self.gpus.append(SmiGpu(line=line, index=index, bdf=bdf, facts=mentions))
