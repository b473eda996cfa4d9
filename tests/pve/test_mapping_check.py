"""The check's wording and order, against what the real code answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.pve.mapping import MappingFile
from provision.pve.mapping_check import check, missing_facts

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data/pve-recordings/mapping-checks.json").read_text()
)


def hexa(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def function(row: dict[str, Any]) -> PciFunction:
    return PciFunction(
        bdf=row["bdf"],
        vendor=int(row["vendor"], 16),
        device=int(row["device"], 16),
        class_code=int(row["class"], 16),
        subsystem_vendor=hexa(row.get("subvendor")),
        subsystem_device=hexa(row.get("subdevice")),
        iommu_group=row.get("iommu"),
        driver=row.get("driver"),
        mediated=bool(row.get("mdev")) or bool(row.get("nvidia")),
    )


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_recording_of_check_node_has_the_same_messages_in_the_same_order(vector: dict[str, Any]) -> None:
    functions = [function(row) for row in vector["hardware"]]
    mappings = MappingFile.parse(vector["pci.cfg"]).mappings
    answer = {
        mapping.id: [(c.severity, c.message) for c in check(mapping, vector["node"], functions, "9.2.11")]
        for mapping in mappings
    }
    assert answer == {
        name: [(row["severity"], row["message"]) for row in rows] for name, rows in vector["expected"].items()
    }


@pytest.mark.counted
def test_recording_count() -> None:
    messages = sum(len(rows) for vector in VECTORS for rows in vector["expected"].values())
    print(f"recording of check-node: {len(VECTORS)} vectors, {messages} messages")
    assert len(VECTORS) == 153


GPU = PciFunction(
    bdf="0000:41:00.0",
    vendor=0x10DE,
    device=0x2BB5,
    class_code=0x030200,
    subsystem_vendor=0x10DE,
    subsystem_device=0x204E,
    iommu_group=12,
    mediated=False,
)
ENTRY = "id=10de:2bb5,node=pve1,path=0000:41:00.0"


def messages(entry: str, gpu: PciFunction, version: str | None) -> list[str]:
    mapping = MappingFile.parse(f"gpu-0\n\tmap {entry}\n\n").mappings[0]
    return [
        c.message.removeprefix("Invalid configuration: ").rstrip("\n") for c in check(mapping, "pve1", [gpu], version)
    ]


@pytest.mark.parametrize(
    ("version", "entry", "gpu", "expected"),
    [
        ("8.1.4", ENTRY, GPU, ["no 'iommugroup' for device '0000:41:00.0'"]),
        ("8.3.0", ENTRY, GPU, ["missing expected property 'iommugroup' for device '0000:41:00.0'"]),
        (None, ENTRY, GPU, ["missing expected property 'iommugroup' for device '0000:41:00.0'"]),
        (
            "8.0.3",
            f"{ENTRY},iommugroup=1,subsystem-id=10de:204e",
            GPU.model_copy(update={"iommu_group": None}),
            ["'iommugroup' configured but should not be"],
        ),
        (
            "8.0.3",
            f"{ENTRY},iommugroup=12,subsystem-id=10de:204e",
            GPU.model_copy(update={"subsystem_vendor": None, "subsystem_device": None}),
            [],
        ),
        ("8.3.0", f"{ENTRY},iommugroup=12,subsystem-id=10de:204e", GPU.model_copy(update={"mediated": True}), []),
        (
            "8.4.0",
            f"{ENTRY},iommugroup=12,subsystem-id=10de:204e",
            GPU.model_copy(update={"mediated": True}),
            ["'mdev' does not match for 'gpu-0' (1 != 0)"],
        ),
        ("8.1.4", f"{ENTRY},iommugroup=13", GPU, ["'iommugroup' does not match for 'gpu-0' (12 != 13)"]),
    ],
)
def test_wording_by_version(version: str | None, entry: str, gpu: PciFunction, expected: list[str]) -> None:
    assert messages(entry, gpu, version) == expected


def test_unknown_facts_are_named_and_not_compared() -> None:
    hidden = GPU.model_copy(
        update={"iommu_group": Unknown(unknown="denied"), "mediated": Unknown(unknown="not read"), "driver": "nvidia"}
    )
    entry = f"{ENTRY},iommugroup=99,subsystem-id=10de:204e"
    mapping = MappingFile.parse(f"gpu-0\n\tmap {entry}\n").mappings[0]
    assert check(mapping, "pve1", [hidden]) == ()
    assert missing_facts(mapping, "pve1", [hidden]) == (
        "0000:41:00.0: iommugroup: denied",
        "0000:41:00.0: mdev: not read",
    )


def test_without_a_host_driver_there_is_no_mediated_device() -> None:
    unread = GPU.model_copy(update={"mediated": Unknown(unknown="not read"), "driver": "vfio-pci"})
    mapping = MappingFile.parse(f"gpu-0\n\tmap {ENTRY},iommugroup=12,subsystem-id=10de:204e\n").mappings[0]
    assert missing_facts(mapping, "pve1", [unread]) == ()
    assert check(mapping, "pve1", [unread]) == ()
