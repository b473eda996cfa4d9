"""Configurations of other people: every file read and written back byte for byte, and understood."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provision.pve.args import Args
from provision.pve.args_words import ArgsReading
from provision.pve.mapping import MappingFile
from provision.pve.property_string import PropertyString
from provision.pve.vm_config import VmConfigFile, hostpci_slots

pytestmark = pytest.mark.corpus


def files(topic: str) -> list[Path]:
    root = os.environ.get("PVECTL_CORPUS")
    if not root:
        pytest.skip("PVECTL_CORPUS names no folder")
    found = sorted(path for path in Path(root, topic).iterdir() if path.is_file())
    assert found
    return found


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


@pytest.mark.counted
def test_roundtrip_of_every_public_file() -> None:
    counts = dict.fromkeys(("files", "lines", "property strings", "args"), 0)
    for path in (*files("pveconf"), *files("pcimap")):
        text = text_of(path)
        assert VmConfigFile.parse(text).render() == text, path
        assert MappingFile.parse(text).render() == text, path
        counts["files"] += 1
        counts["lines"] += text.count("\n")
        for section in VmConfigFile.parse(text).sections:
            for key, value in section.options.items():
                assert PropertyString.parse(value, "host").render() == value, path
                counts["property strings"] += 1
                if key == "args":
                    assert Args.parse(value).render() == value, path
                    counts["args"] += 1
    print("roundtrip of public files: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    assert counts["files"] == len(files("pveconf")) + len(files("pcimap"))
    assert counts["args"] >= 5


def live(number: str) -> dict[str, str]:
    (path,) = (one for one in files("pveconf") if one.name.startswith(number))
    return VmConfigFile.parse(text_of(path)).live


@pytest.mark.parametrize("number", ["05", "07", "11", "13"])
def test_a_cpu_in_args_is_seen(number: str) -> None:
    assert ArgsReading.of(Args.parse(live(number)["args"])).cpu


def test_a_lost_cpu_option_is_a_stray_word() -> None:
    found = ArgsReading.of(Args.parse(live("08")["args"]))
    assert found.cpu is None
    assert len(found.stray) == 1


def test_the_live_section_ends_where_the_next_begins() -> None:
    assert live("29").get("bios") != "ovmf"
    assert "hostpci0" not in live("29")


def test_slots_by_number() -> None:
    assert [slot.index for slot in hostpci_slots(live("07"))] == list(range(12))
    assert [slot.mapping for slot in hostpci_slots(live("17"))].count(None) == 0
