"""pci.cfg: what Proxmox sees, and what it would lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.pve.mapping import MappingFile, entry_text, parse_entry, write_file

GOOD = "id=10de:2bb5,iommugroup=12,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e"


@given(st.text())
def test_any_text_renders_as_it_was(text: str) -> None:
    assert MappingFile.parse(text).render() == text


def test_what_proxmox_writes_reads_back() -> None:
    text = (
        f"gpu-0\n\tmap {GOOD}\n\tdescription first slot\n\tlive-migration-capable 0\n\tmdev 1\n\nb1\n\tmap {GOOD}\n\n"
    )
    file = MappingFile.parse(text)
    assert write_file(file.mappings) == text
    assert file.lost == ()
    first = file.get("gpu-0")
    assert first is not None
    assert (first.description, first.mdev, first.options) == ("first slot", True, {"live-migration-capable": "0"})


def test_what_would_be_lost() -> None:
    text = "\n".join(
        [
            "# by hand",
            "gpu-0",
            "\tmap rubbish",
            f"\tmap {GOOD}",
            "\tmdev maybe",
            "\tdescription a",
            "\tdescription b",
            "not indented",
            "",
            "\tmap outside",
            "1bad",
            f"\tmap {GOOD}",
            "",
            "empty",
            "\tdescription nothing",
            "",
            "gpu-0",
            f"\tmap {GOOD}",
            "",
        ]
    )
    file = MappingFile.parse(text)
    assert [(line.number, line.reason) for line in file.lost] == [
        (1, "a comment"),
        (2, "the same id follows again below"),
        (3, "a damaged entry"),
        (5, "an option or value that Proxmox does not know"),
        (7, "given twice"),
        (8, "not an indented option"),
        (10, "outside of any section"),
        (11, "no valid mapping id"),
        (12, "below an id that is not valid"),
    ]
    assert [mapping.id for mapping in file.mappings] == ["gpu-0"]
    assert [mapping.id for mapping in file.unlisted] == ["empty"]
    assert file.get("empty") is None


def test_damaged_entries_are_kept_apart() -> None:
    file = MappingFile.parse(f"gpu-0\n\tmap rubbish\n\tmap {GOOD}\n")
    assert file.mappings[0].damaged == ("rubbish",)
    assert [entry.path for entry in file.mappings[0].entries] == ["0000:41:00.0"]


def test_entry_text() -> None:
    assert entry_text("pve1", "0000:41:00.0", "10DE:2BB5", "10DE:204E", 12) == GOOD
    described = entry_text("pve1", "0000:41:00.0", "10de:2bb5", None, None, "slot 3")
    assert described == "id=10de:2bb5,node=pve1,path=0000:41:00.0,description=slot 3"
    entry = parse_entry(described)
    assert entry is not None
    assert (entry.subsystem_id, entry.iommugroup, entry.description) == (None, None, "slot 3")


@pytest.mark.parametrize(
    "arguments",
    [
        ("pve1", "41:00.0", "10de:2bb5", None, None),
        ("pve_1", "0000:41:00.0", "10de:2bb5", None, None),
        ("pve1", "0000:41:00.0", "0x10de:0x2bb5", None, None),
        ("pve1", "0000:41:00.0", "10de:2bb5", None, None, "a,b"),
        ("pve1", "0000:41:00.0", "10de:2bb5", None, None, "x" * 5000),
    ],
)
def test_entry_text_refuses(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"no mapping entry|has a comma"):
        entry_text(*arguments)  # type: ignore[arg-type]
