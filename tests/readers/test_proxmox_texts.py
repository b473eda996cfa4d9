"""Texts of Proxmox: mappings in three forms, pvesh, commands, and what a VM's start printed."""

from __future__ import annotations

from pathlib import Path

from provision.evidence import Unknown
from provision.readers import mapping_text, pve_commands, pvesh_output, qemu_log
from provision.readers.json_text import values
from provision.readers.mapping_text import MappingTexts
from provision.readers.pve_commands import PveCommands
from provision.readers.pvesh_output import PveshOutput
from provision.readers.qemu_log import QemuLog

PASTES = Path(__file__).parents[1] / "data" / "pastes"


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def mappings(name: str) -> MappingTexts:
    reading = mapping_text.read(text_of(name))
    assert isinstance(reading, MappingTexts), reading
    return reading


def log(text: str) -> QemuLog:
    reading = qemu_log.read(text)
    assert isinstance(reading, QemuLog), reading
    return reading


def test_mappings_as_json_with_checks() -> None:
    reading = mappings("mapping-json")
    assert [mapping.id for mapping in reading.mappings] == ["card", "net"]
    card, net = reading.mappings
    assert card.checks[0].severity == "warning"
    assert "'31' != '12'" in card.checks[0].message
    assert net.checks == ()
    assert reading.has_checks
    lines = text_of("mapping-json").splitlines()
    assert all(entry.text in lines[entry.line - 1] for mapping in reading.mappings for entry in mapping.entries)


def test_mappings_as_a_table() -> None:
    reading = mappings("mapping-json-table")
    assert (reading.form, reading.has_checks) == ("table", False)
    assert [(mapping.id, len(mapping.entries)) for mapping in reading.mappings] == [("card", 1), ("net", 1)]
    assert reading.mappings[0].entries[0].text.startswith("id=10de:2bb5,iommugroup=31,node=alpha,path=0000:41:00.0")


def test_mappings_in_somebody_elses_notation() -> None:
    reading = mappings("mapping-json-words")
    (card,) = reading.mappings
    assert (reading.form, card.id) == ("words", "card")
    assert [entry.line for entry in card.entries] == [3, 4]


def test_json_that_was_cut_keeps_the_whole_mappings() -> None:
    text = text_of("mapping-json")
    reading = mapping_text.read(text[: text.index("0000:21:10.4")])
    assert isinstance(reading, MappingTexts)
    assert reading.mappings[0].id == "card"
    assert reading.skipped


def test_deep_json_is_refused_and_nothing_breaks() -> None:
    assert list(values("[" * 100_000)) == []
    assert list(values("[{" + '"a":[' * 5000)) == []


def test_the_devices_of_a_node_as_json_and_table() -> None:
    for name, count in (("pvesh-json", 2), ("pvesh-json-table", 2)):
        reading = pvesh_output.read(text_of(name))
        assert isinstance(reading, PveshOutput)
        assert (reading.what, len(reading.rows)) == ("pci-devices", count)
        assert "0000:41:00.0" in reading.as_listing


def test_a_vm_of_the_api() -> None:
    reading = pvesh_output.read(text_of("pvesh-json-vm"))
    assert isinstance(reading, PveshOutput)
    assert reading.what == "vm-config"
    assert reading.rows[0][1]["hostpci0"] == "mapping=card,pcie=1"


def test_commands_over_several_lines() -> None:
    reading = pve_commands.read(text_of("pve-commands"))
    assert isinstance(reading, PveCommands)
    create, put, qm = reading.commands
    assert (create.verb, create.mapping) == ("create", "card")
    assert [value.line for value in create.values("map")] == [3, 4]
    assert create.values("description")[0].text == "the big card"
    assert (put.verb, put.mapping) == ("set", "net")
    assert (qm.program, qm.target, qm.values("hostpci0")[0].text) == ("qm", "100", "mapping=card,pcie=1")


def test_a_command_behind_a_prompt() -> None:
    reading = pve_commands.read("root@alpha:~# qm set 101 --machine q35  # new\n")
    assert isinstance(reading, PveCommands)
    assert reading.commands[0].values("machine")[0].text == "q35"


def test_the_log_of_a_start_that_failed() -> None:
    reading = log(text_of("qemu-log"))
    message = next(message for message in reading.messages if message.program == "kvm")
    assert message.bdf == "0000:41:00.0"
    assert message.argument == "vfio-pci,host=0000:41:00.0,id=hostpci0,bus=ich9-pcie-port-1,addr=0x0"
    assert "group 31 is not viable" in message.text
    (end,) = reading.ends
    assert (end.how, end.why, end.line) == ("error", "start failed: QEMU exited with code 1", 5)


def test_a_mapping_that_a_start_refused() -> None:
    reading = log("TASK ERROR: PCI device mapping invalid (hardware probably changed): missing expected property 'x'\n")
    assert reading.ends[0].why.startswith("PCI device mapping invalid")


def test_a_task_that_went_well() -> None:
    assert [end.how for end in log("generating cloud-init ISO\nTASK OK\n").ends] == ["ok"]


def test_a_command_line_of_qemu() -> None:
    reading = log(text_of("qemu-log-showcmd"))
    (start,) = reading.starts
    assert (start.vmid, reading.vmid) == (100, 100)
    passed = [device for device in start.devices if device.driver == "vfio-pci"]
    assert [(device.host, device.options["id"], device.line) for device in passed] == [("0000:41:00.0", "hostpci0", 6)]


def test_other_words_are_no_log() -> None:
    assert isinstance(qemu_log.read("my VM has a problem\n"), Unknown)


def test_a_table_of_mappings_beside_a_message_names_the_mapping() -> None:
    text = "| `card` | `0000:17:00` (all functions) | `10de:2236` |\nmissing expected property\n"
    reading = qemu_log.read(text)
    assert isinstance(reading, QemuLog)
    assert reading.mappings == ("card",)
    assert [message.text for message in reading.messages] == ["missing expected property"]
