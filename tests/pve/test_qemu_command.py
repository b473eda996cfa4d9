"""The predicted QEMU command against recorded ones: every configuration, the predicted parts word for word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from provision.pci.model import PciFunction
from provision.pve.mapping import MappingFile
from provision.pve.qemu.command import Prediction, predict, split_command
from provision.pve.qemu.facts import NodeFacts, QemuRefusal, node_facts
from provision.pve.qemu.parts import Option, command_diff, options_of
from provision.pve.vm_config import VmConfigFile

DATA = Path(__file__).parent.parent / "data" / "pve-recordings"
RECORDED = DATA / "cfg2argv"
INDEX: dict[str, dict[str, Any]] = json.loads((RECORDED / "index.json").read_text(encoding="utf-8"))
PERL_PLACE = re.compile(r" at /usr/share/perl5/\S+ line \d+\.$")


def hexa(text: str | None) -> int | None:
    return int(text, 16) if text else None


def function(row: dict[str, Any]) -> PciFunction:
    return PciFunction(
        bdf=row["bdf"],
        vendor=int(row["vendor"], 16),
        device=int(row["device"], 16),
        class_code=int(row["class"], 16),
        subsystem_vendor=hexa(row.get("subvendor")),
        subsystem_device=hexa(row.get("subdevice")),
        iommu_group=row.get("iommu"),
        mediated=bool(row.get("mdev") or row.get("nvidia")),
    )


def facts_for(case: dict[str, Any]) -> NodeFacts:
    rows = json.loads((RECORDED / case["hardware"]).read_text(encoding="utf-8"))
    mappings = MappingFile.parse((RECORDED / case["pci.cfg"]).read_text(encoding="utf-8")).mappings
    return node_facts("pve1", (11, 0), [function(row) for row in rows], mappings)


def predicted(case: dict[str, Any]) -> Prediction:
    file = VmConfigFile.parse((RECORDED / case["conf"]).read_text(encoding="utf-8"))
    return predict(file.live, facts_for(case), case["vmid"], damaged=file.sections[0].damaged)


def text_of(name: str, kind: str) -> str:
    path = RECORDED / f"{name}.{kind}.txt"
    return path.read_text(encoding="utf-8").strip("\n") if path.exists() else ""


def outcome(name: str) -> str:
    """Return ``equal``, ``refused alike`` or what differs."""
    case = INDEX[name]
    try:
        found = predicted(case)
    except QemuRefusal as refusal:
        wanted = PERL_PLACE.sub("", text_of(name, "error").split("\n")[-1])
        return "refused alike" if str(refusal) == wanted else f"{refusal!s} instead of {wanted}"
    if "argv" not in case or not (RECORDED / case["argv"]).exists():
        return f"not refused: {text_of(name, 'error')}"
    recorded = tuple(json.loads((RECORDED / case["argv"]).read_text(encoding="utf-8")))
    diff = command_diff(options_of(recorded), options_of(found.words))
    if diff or options_of(recorded) != options_of(found.words):
        return f"not modeled: {'; '.join(found.not_modeled)}" if found.not_modeled else diff or "another order"
    if "\n".join(found.warnings) != text_of(name, "warnings"):
        return f"warnings {found.warnings} instead of {text_of(name, 'warnings')}"
    return "equal"


@pytest.mark.parametrize("name", INDEX)
def test_recording(name: str) -> None:
    assert outcome(name) in ("equal", "refused alike")


def test_recording_counts(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {name: outcome(name) for name in INDEX}
    count = {kind: sum(text == kind for text in outcomes.values()) for kind in ("equal", "refused alike")}
    missing = {name: text for name, text in outcomes.items() if text.startswith("not modeled")}
    with capsys.disabled():
        print(
            f"\ncommand lines: {len(INDEX)} recorded, {count['equal']} equal, {count['refused alike']} refused alike,"
        )
        print(f"not modeled: {len(missing)} {missing or ''}")
    assert sum(count.values()) + len(missing) == len(INDEX) == 128
