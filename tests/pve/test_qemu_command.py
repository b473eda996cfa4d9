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


@pytest.mark.counted
def test_recording_counts() -> None:
    outcomes = {name: outcome(name) for name in INDEX}
    count = {kind: sum(text == kind for text in outcomes.values()) for kind in ("equal", "refused alike")}
    missing = {name: text for name, text in outcomes.items() if text.startswith("not modeled")}
    print(
        f"command lines: {len(INDEX)} recorded, {count['equal']} equal, {count['refused alike']} refused alike, "
        f"not modeled: {len(missing)} {missing or ''}"
    )
    assert sum(count.values()) + len(missing) == len(INDEX) == 128
    compared = sum(len(options_of(predicted(INDEX[n]).words)) for n, text in outcomes.items() if text == "equal")
    assert compared > 1200


def parts(text: str) -> tuple[Option, ...]:
    return options_of(split_command(text))


def test_only_the_words_that_differ_are_shown() -> None:
    before = parts("/usr/bin/kvm -id 1 -cpu a,+x,+y -m 1 -device vfio-pci,host=h,id=hostpci0 -machine type=q35 -foo 1")
    after = parts("/usr/bin/kvm -id 2 -cpu b,+x,+y -m 1 -device vfio-pci,host=i,id=hostpci0 -machine type=q35 -bar 1")
    assert command_diff(before, after).splitlines() == [
        "- -cpu a,...",
        "+ -cpu b,...",
        "- -device vfio-pci,host=h,id=hostpci0",
        "+ -device vfio-pci,host=i,id=hostpci0",
        "- -foo 1",
        "+ -bar 1",
    ]
    assert command_diff(before, before) == ""


def test_pretty_and_plain_showcmd_are_one() -> None:
    rows = [json.loads(line) for line in (DATA / "pvesh.jsonl").read_text(encoding="utf-8").splitlines()]
    shown = [row["stdout"] for row in rows if (row["argv"] or [])[:2] == ["qm", "showcmd"] and row["rc"] == 0]
    assert split_command(shown[0]) == split_command(shown[1])
    assert parts(shown[0])


def test_what_is_not_known_is_said() -> None:
    facts = NodeFacts(node="pve1", qemu=(11, 0), devices=("0000:01:00.0",), mediated=frozenset({"0000:01:00.0"}))
    options = {"machine": "q35", "cpu": "custom-gpu", "hostpci0": "01:00.0,mdev=nvidia-1", "hotplug": "memory,cpu"}
    found = predict(options, facts, 100)
    assert any("custom-gpu" in gap for gap in found.not_modeled)
    assert {"hotplug of memory", "hotplug of cpu"} <= set(found.not_modeled)
    assert any("vGPU" in gap for gap in found.not_modeled)
    assert "custom-gpu,..." in found.words


@pytest.mark.parametrize(
    ("cpu", "words"),
    [
        ("EPYC-Genoa", "EPYC-Genoa,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,vendor=AuthenticAMD"),
        ("EPYC-Rome-v4,flags=+pdpe1gb;-aes", "EPYC-Rome-v4,-aes,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,+pdpe1gb,{amd}"),
        ("SapphireRapids-v2,phys-bits=host", "SapphireRapids-v2,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,{intel},{host}"),
        ("Skylake-Server-noTSX-IBRS", "Skylake-Server-noTSX-IBRS,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,{intel}"),
        ("Icelake-Client-noTSX", "Icelake-Server-noTSX,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,{intel}"),
        ("Opteron_G5", "Opteron_G5,enforce,+kvm_pv_eoi,+kvm_pv_unhalt,-rdtscp,{amd}"),
        ("max", "max,enforce,+kvm_pv_eoi,+kvm_pv_unhalt"),
    ],
)
def test_named_models_say_their_maker(cpu: str, words: str) -> None:
    found = predict({"machine": "q35", "cpu": cpu}, NodeFacts(node="pve1", qemu=(11, 0), devices=()), 100)
    makers = {"amd": "vendor=AuthenticAMD", "intel": "vendor=GenuineIntel", "host": "host-phys-bits=true"}
    assert words.format(**makers) in found.words
    assert found.not_modeled == ()


@pytest.mark.parametrize("cpu", ["EPYC-Naples", "Zen5", "host,flags=+nested-virt"])
def test_a_model_or_flag_that_is_not_known_is_not_guessed(cpu: str) -> None:
    found = predict({"machine": "q35", "cpu": cpu}, NodeFacts(node="pve1", qemu=(11, 0), devices=()), 100)
    assert found.not_modeled


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"machine": "q35,aw-bits=48"}, "cannot set aw-bits"),
        ({"numa": "1", "hugepages": "1024", "memory": "1026"}, "not a multiple"),
        ({"numa": "1", "numa0": "memory=512"}, "missing NUMA node0 cpus"),
    ],
)
def test_refusals_in_proxmox_words(options: dict[str, str], words: str) -> None:
    with pytest.raises(QemuRefusal, match=words):
        predict(options, NodeFacts(node="pve1", qemu=(11, 0), devices=()), 100)


@pytest.mark.parametrize(("meta", "kind"), [("creation-qemu=9.0.2", "pc-q35-9.0+pve0"), ("", "pc-q35-5.1+pve0")])
def test_windows_keeps_the_machine_that_it_was_made_with(meta: str, kind: str) -> None:
    options = {"machine": "q35", "ostype": "win11", **({"meta": meta} if meta else {})}
    found = predict(options, NodeFacts(node="pve1", qemu=(11, 0), devices=()), 100)
    assert f"hpet=off,type={kind}" in found.words
