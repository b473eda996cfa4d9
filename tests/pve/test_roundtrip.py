"""Files as Proxmox has them: read and written back byte for byte, and understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.pve.args import Args, ArgsError
from provision.pve.args_words import ArgsReading
from provision.pve.mapping import MappingFile, parse_entry, write_file
from provision.pve.property_string import PropertyString
from provision.pve.vm_config import VmConfigFile, hostpci_slots

DATA = Path(__file__).parents[1] / "data"
OWN = DATA / "pve"


@pytest.mark.counted
def test_roundtrip_of_every_recorded_file() -> None:
    counts = dict.fromkeys(("VM configurations", "mapping files", "property strings", "entries"), 0)
    for path in sorted([*DATA.joinpath("pve-recordings").rglob("*"), *OWN.iterdir()]):
        if path.suffix == ".conf":
            text = path.read_bytes().decode()
            file = VmConfigFile.parse(text)
            assert file.render() == text, path
            values = [value for section in file.sections for value in section.options.values()]
            assert all(PropertyString.parse(value, "host").render() == value for value in values), path
            counts["VM configurations"] += 1
            counts["property strings"] += len(values)
        elif path.suffix == ".cfg" and "pci" in path.name:
            mappings = MappingFile.parse(path.read_bytes().decode())
            assert mappings.render() == path.read_bytes().decode(), path
            again = MappingFile.parse(write_file(mappings.mappings))
            assert [m.entries for m in again.mappings] == [m.entries for m in mappings.mappings], path
            counts["mapping files"] += 1
            counts["entries"] += sum(len(mapping.entries) for mapping in mappings.mappings)
    print("roundtrip: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    assert all(counts.values())


def test_special_pending_and_doubled_sections() -> None:
    file = VmConfigFile.parse((OWN / "special-sections.conf").read_text())
    kinds = [(section.kind, section.name) for section in file.sections]
    assert kinds == [
        ("live", ""),
        ("pending", "PENDING"),
        ("special", "special:cloudinit"),
        ("special", "special:fleecing"),
        ("snapshot", "before"),
        ("snapshot", "before"),
        ("unknown", "x"),
        ("unknown", "not a name!"),
    ]
    assert file.live["cores"] == "8"
    assert file.pending == {"hostpci1": "mapping=gpu-1,pcie=1"}
    assert file.pending_delete == ("balloon", "hostpci3")
    assert file.sections[0].damaged == ("this line is damaged", "UPPER: case")
    assert file.description == "first line of the notes\nsecond line with , and \n in it"
    assert [slot.index for slot in hostpci_slots(file.live)] == [0]
    assert VmConfigFile.parse(file.set("balloon", "0").render()).sections[1:] == file.sections[1:]


def test_an_unclosed_quote_is_noticed() -> None:
    file = VmConfigFile.parse((OWN / "special-sections.conf").read_text())
    with pytest.raises(ArgsError, match="unclosed quote"):
        Args.parse(file.live["args"])


def test_args_are_understood_word_by_word() -> None:
    words = ArgsReading.of(Args.parse(VmConfigFile.parse((OWN / "args.conf").read_text()).live["args"]))
    assert words.cpu == "host,phys-bits=48"
    assert [one.id for one in words.device_sets] == ["hostpci0"]
    assert [one.property for one in words.globals] == ["x-no-mmap"]
    assert words.fw_cfg == {"opt/ovmf/X-PciMmio64Mb": "262144"}
    assert [device.host for device in words.vfio_devices] == ["0000:41:00.0"]


def test_a_damaged_mapping_file_is_read_as_proxmox_reads_it() -> None:
    file = MappingFile.parse((OWN / "damaged-pci.cfg").read_text())
    assert [mapping.id for mapping in file.mappings] == ["gpu-0"]
    assert [entry.path for entry in file.mappings[0].entries] == ["0000:61:00.0;0000:62:00.0"]
    assert [mapping.id for mapping in file.unlisted] == ["empty-one"]
    assert {line.reason for line in file.lost} >= {
        "a comment",
        "a damaged entry",
        "an option or value that Proxmox does not know",
        "no valid mapping id",
        "the same id follows again below",
    }
    assert parse_entry("id=10DE:2BB5,iommugroup=+7,node=pve2,path=0000:41:00,subsystem-id=10de:204e,") is not None
