"""Rules over documents, through the real path: recognized by content, read, judged.  Texts are invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.engine import diagnose
from provision.host.from_documents import model_of
from provision.readers.recognize import documents

FOLDER = Path(__file__).resolve().parents[2] / "provision/doctor/document_rules"
HEADINGS = ["What it means", "How we know", "What to do", "When this is wrong", "Sources"]


def said(*texts: str, names=("a.txt", "b.txt")):
    found = [one for name, text in zip(names, texts, strict=False) for one in documents(name, text)[0]]
    report = diagnose(model_of(found), found)
    assert not report.crashed, report.crashed
    return report


def of(report, rule: str):
    return [finding for finding in report.findings if finding.rule == rule]


@pytest.mark.parametrize("rule", [rule.id for rule in (*DOCUMENT_RULES, *BUNDLE_RULES)])
def test_each_rule_has_its_module_and_page(rule):
    assert (FOLDER / f"{rule.replace('-', '_')}.py").exists()
    text = (FOLDER / f"{rule}.md").read_text("utf-8")
    assert text.startswith(f"# {rule}: ")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == HEADINGS


CREATE = "pvesh create /cluster/mapping/pci --id card \\\n  --map {}\n"
WHOLE = "node=n1,path=0000:17:00.0,id=10de:2236,subsystem-id=10de:1482,iommugroup=7"


@pytest.mark.parametrize(
    ("entry", "severity", "words"),
    [
        (WHOLE.replace("id=10de:2236,", ""), "error", "mapping card: id= is missing"),
        (WHOLE.replace(",subsystem-id=10de:1482", ""), "warning", "subsystem-id= is missing"),
        (WHOLE.replace(",iommugroup=7", ""), "error", "iommugroup= is missing"),
    ],
)
def test_an_entry_that_lacks_a_property(entry, severity, words):
    (finding,) = of(said(CREATE.format(entry)), "mapping-entry")
    assert finding.severity == severity
    assert words in finding.summary
    assert finding.evidence[0].line == 2


def test_a_whole_entry_is_silent_and_group_zero_is_a_group():
    assert not said(CREATE.format(WHOLE)).findings
    assert not said(CREATE.format(WHOLE.replace("iommugroup=7", "iommugroup=0"))).findings


def test_functions_of_a_card_are_alternatives():
    both = WHOLE + " \\\n  --map " + WHOLE.replace("17:00.0,id=10de:2236", "17:00.1,id=10de:1aef")
    (finding,) = of(said(CREATE.format(both)), "mapping-entry")
    assert "are alternatives, not one bundle" in finding.summary
    assert finding.remedy[0].startswith("one entry for the whole card: path=0000:17:00,")


def test_one_function_where_the_whole_card_is_meant():
    text = CREATE.format(WHOLE).replace("--id card", '--id card --description "the whole card"')
    (finding,) = of(said(text), "mapping-entry")
    assert finding.severity == "info"
    assert "only function 0 is mapped" in finding.summary


def test_a_set_drops_the_entries_of_other_nodes():
    more = f"pvesh set /cluster/mapping/pci/card --map {WHOLE.replace('n1', 'n2')}\n"
    (finding,) = of(said(CREATE.format(WHOLE) + "\n" + more), "mapping-command")
    assert finding.severity == "error"
    assert "those of n1 are gone" in finding.summary
    kept = f"pvesh set /cluster/mapping/pci/card --map {WHOLE} --map {WHOLE.replace('n1', 'n2')}\n"
    assert not of(said(CREATE.format(WHOLE) + "\n" + kept), "mapping-command")


def test_a_mapping_that_nobody_makes():
    use = "qm set 100 --hostpci0 mapping={},pcie=1\n"
    (finding,) = of(said(CREATE.format(WHOLE) + "\n" + use.format("sound")), "mapping-command")
    assert (finding.severity, finding.subjects[0]) == ("warning", "mapping/sound")
    assert not of(said(CREATE.format(WHOLE) + "\n" + use.format("card")), "mapping-command")
    assert not of(said(use.format("sound")), "mapping-command")


def test_a_message_of_a_start():
    text = (
        "TASK ERROR: PCI device mapping invalid (hardware probably changed): missing expected property "
        "'iommugroup' for device '0000:17:00.0'\n"
    )
    report = said(text)
    assert [finding.severity for finding in report.findings] == ["error"]
    assert "iommugroup" in report.findings[0].summary
    assert not said("TASK OK\n").findings


PART = "args: {}\nboot: order=usb0\nhostpci0: mapping=card\nusb0: mapping=stick\n"


def test_a_part_of_a_configuration_is_judged_by_what_is_there():
    (finding,) = of(said(PART.format("-device intel-iommu")), "vm-viommu-with-p2p")
    assert finding.severity == "warning"
    assert finding.evidence[0].source == "a.txt"
    assert "VM 0" not in finding.model_dump_json()
    assert not said(PART.format("-smbios type=2")).findings


LISTING = """\
01:00.0 Non-Volatile memory controller [0108]: Example Disk [1e0f:0001]
02:00.0 Ethernet controller [0200]: Example Port [8086:1521]
03:00.0 SATA controller [0106]: Example Ports [1022:7901]
00:01.1 PCI bridge [0604]: Example Bridge [1022:1483]
00:02.1 PCI bridge [0604]: Example Bridge [1022:1484]
00:08.1 PCI bridge [0604]: Example Bridge [1022:1485]
"""
LATER = LISTING.replace("03:00", "04:00").replace("02:00", "03:00") + (
    "02:00.0 3D controller [0302]: NVIDIA Corporation A10 [10de:2236]\n"
)


def test_devices_that_moved_between_two_listings():
    (finding,) = of(said(LISTING, LATER), "listing-moved")
    assert {"0000:02:00.0", "0000:03:00.0", "0000:04:00.0"} <= set(finding.subjects)
    assert "0000:02:00.0 is 0000:03:00.0 now" in finding.summary
    assert not of(said(LISTING, LISTING), "listing-moved")
    assert not of(said(LATER), "listing-moved")


GROUPS = """\
IOMMU Group {0} 02:00.0 Ethernet controller [0200]: Example Port [8086:1521]
IOMMU Group {1} 03:00.0 SATA controller [0106]: Example Ports [1022:7901]
IOMMU Group {2} 05:00.0 USB controller [0c03]: Example Hub [1022:149c]
"""


def test_groups_that_were_merged_between_two_listings():
    (finding,) = of(said(GROUPS.format(4, 5, 6), GROUPS.format(4, 4, 5)), "listing-groups-merged")
    assert "IOMMU group 4" in finding.summary
    assert set(finding.subjects) == {"0000:02:00.0", "0000:03:00.0"}
    assert not of(said(GROUPS.format(4, 5, 6), GROUPS.format(7, 8, 9)), "listing-groups-merged")


APU = """\
00:08.1 PCI bridge [0604]: Example Bridge [1022:1635]
05:00.0 VGA compatible controller [0300]: Example Graphics [1002:164c]
05:00.1 Audio device [0403]: Example Sound [1002:1637]
"""


def test_a_slot_that_holds_more_than_the_gpu():
    usb = "05:00.3 USB controller [0c03]: Example Hub [1022:1639]\n"
    (finding,) = of(said(APU + usb), "slot-mixed-functions")
    assert finding.subjects == ("0000:05:00.3", "0000:05:00.0")
    assert not of(said(APU), "slot-mixed-functions")


def test_cards_below_one_switch_with_an_interrupt_that_nobody_handles():
    tree = (
        "-[0000:00]-+-00.0\n"
        "           +-02.0-[02-05]----00.0-[03-05]--+-08.0-[04]--+-00.0\n"
        "           |                               |            \\-00.1\n"
        "           |                               \\-10.0-[05]--+-00.0\n"
        "           |                                            \\-00.1\n"
        "           \\-1f.0\n"
    )
    log = '[   77.123456] irq 31: nobody cared (try booting with the "irqpoll" option)\n[   77.2] Disabling IRQ #31\n'
    (finding,) = of(said(tree, log), "gpus-share-switch")
    assert finding.subjects[0] == "04+05"
    (line,) = of(said(tree, log), "irq-nobody-cared")
    assert line.summary.endswith("cards that share a switch, and so a line: 04+05")
    assert "share a switch" not in of(said(log), "irq-nobody-cared")[0].summary
    assert not of(said(tree), "gpus-share-switch")


def test_a_message_that_names_no_mapping_is_about_the_only_one_in_the_text():
    row = "| `{}` | `0000:17:00` (all functions) | `10de:2236` |\n"
    message = "PCI device mapping invalid (hardware probably changed)\nmissing expected property\n"
    (finding,) = said(row.format("card") + message).findings
    assert (finding.rule, finding.subjects) == ("pve-property-cut", ("mapping/card",))
    (other,) = said(row.format("card") + row.format("other") + message).findings
    assert other.subjects == ("a.txt",)


MAPPING = """card
	map id=10de:2bb5,iommugroup=31,node=alpha,path=0000:41:00.0,subsystem-id=10de:204e
"""
BRIDGE = "0000:00:00.0 Host bridge [0600]: Advanced Micro Devices, Inc. [AMD] Root Complex [1022:14a4]\n"
OTHER = "0000:61:00.0 3D controller [0302]: NVIDIA Corporation GB202GL [10de:2bb5] (rev a1)\n"


@pytest.mark.parametrize("texts", [(MAPPING,), (MAPPING, OTHER)])
def test_a_device_that_the_texts_do_not_show_is_not_gone(texts):
    report = said(*texts)
    assert not of(report, "mapping-stale")
    (open_question,) = [one for one in report.undecidable if one.rule == "mapping-stale"]
    assert open_question.missing.startswith("mapping card: presence of 0000:41:00.0: the texts do not list all")


def test_a_device_that_a_whole_listing_lacks_is_gone():
    (finding,) = of(said(MAPPING, BRIDGE + OTHER), "mapping-stale")
    assert "pci device '0000:41:00.0' not found" in finding.consequence


def test_an_id_that_no_text_shows_is_compared_with_nothing():
    log = (
        "[    0.000000] Linux version 6.14.8-2-pve (build@example) (gcc 14.2.0) #1 SMP\n"
        "[    1.350001] pci 0000:41:00.0: Adding to iommu group 31\n"
        "[    9.120001] vfio-pci 0000:41:00.0: enabling device (0140 -> 0142)\n"
    )
    report = said(MAPPING, log)
    assert not of(report, "mapping-stale")
    missing = [one.missing for one in report.undecidable if one.rule == "mapping-stale"]
    assert any(text.startswith("mapping card: id of 0000:41:00.0: the texts do not show vendor") for text in missing)
    assert not report.notes


def test_a_slot_whose_device_no_text_shows_waits_for_a_listing():
    vm = "bios: ovmf\nboot: order=scsi0\ncores: 8\nhostpci0: 0000:41:00.0,pcie=1\nmachine: q35\nmemory: 8192\n"
    (question,) = [one for one in said(vm).undecidable if one.rule == "cpu-caps-mmio-window"]
    assert question.supply == "add the output of lspci -Dnnvvv, run as root"
