"""Kernel logs in every form that people paste: the same four messages, boots, origin, facts, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.readers import kernel_log_keep
from provision.readers.kernel_log import KernelLog, events, read, read_lines, recognize
from provision.readers.kernel_log_join import MAX_TEXT
from provision.readers.kernel_log_time import month

LOGS = Path(__file__).parents[1] / "data" / "logs"
FORMS = sorted((LOGS / "forms").iterdir(), key=lambda path: path.name)
TEXTS = (
    "Linux version 6.8.12-4-pve (build@example) (gcc (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC PMX 6.8.12-4",
    "pci 0000:41:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space",
    "vfio-pci 0000:41:00.0: not ready 1023ms after FLR; waiting",
    "NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:884)",
)
NO_CLOCK = {"dmesg-plain.txt": 4, "dmesg-relative.txt": 3}
BOOT_CLOCK = {
    "crlf", "dmesg", "dmesg-caller", "dmesg-decoded", "dmesg-delta", "glued", "journal-monotonic", "kmsg",
    "kmsg-caller", "mail", "pstore", "serial", "terminal",
}  # fmt: skip
NO_REALTIME = {"journal-verbose"}
WITH_LEVEL = {"dmesg-decoded", "dmesg-decoded-iso", "journal-export", "journal-json", "journal-verbose", "kmsg"} | {
    "kmsg-caller",
    "pstore",
}


def log_of(text: str) -> KernelLog:
    log = read(text)
    assert isinstance(log, KernelLog), log
    return log


def ours(log: KernelLog) -> list:
    return [record for record in log.records if record.text in TEXTS]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_each_form_gives_the_same_messages(path: Path) -> None:
    text = path.read_bytes().decode()
    log = log_of(text)
    assert [record.text for record in ours(log)] == list(TEXTS)
    assert recognize(text) >= 0.6
    assert log.origin == "host"
    assert [boot.kernel for boot in log.boots][-1] == "6.8.12-4-pve"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_each_form_gives_its_times_and_levels(path: Path) -> None:
    records = ours(log_of(path.read_bytes().decode()))
    clocks = [record.time if isinstance(record.time, Unknown) else record.time.clock for record in records]
    assert sum(isinstance(clock, Unknown) for clock in clocks) == NO_CLOCK.get(path.name, 0)
    expected = "boot" if path.stem in BOOT_CLOCK | NO_REALTIME else "wall"
    assert {clock for clock in clocks if isinstance(clock, str)} <= {expected}
    times = [record.time.seconds for record in records if not isinstance(record.time, Unknown)]
    assert times == sorted(times)
    levels = [record.level for record in records]
    if path.stem in WITH_LEVEL:
        assert levels == ["notice", "err", "warn", "err"]
    else:
        assert all(isinstance(level, Unknown) and level.supply for level in levels)


@pytest.mark.parametrize("path", [path for path in FORMS if path.suffix == ".txt"], ids=lambda path: path.stem)
def test_lines_are_those_of_the_text(path: Path) -> None:
    text = path.read_bytes().decode()
    lines = text.split("\n")
    for record in ours(log_of(text)):
        assert "0000:41:00.0" in lines[record.line - 1] or "Linux version" in lines[record.line - 1]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Mär", 3),
        ("mars", 3),
        ("févr.", 2),
        ("août", 8),
        ("ene", 1),
        ("gen", 1),
        ("mei", 5),
        ("sty", 1),
        ("paź", 10),
        ("май", 5),
        ("мая", 5),
        ("фев", 2),
        ("Şub", 2),
        ("dez.", 12),
        ("déc.", 12),
        ("8月", 8),
        ("maj", 5),
        ("říj", 10),
        ("printk", None),
        ("", None),
        ("13月", None),
    ],
)
def test_months(name: str, number: int | None) -> None:
    assert month(name) == number


def test_a_month_that_is_not_known_is_said() -> None:
    (record,) = log_of("Xyz 25 19:38:04 pve1 kernel: NVRM: GPU is lost").records
    assert isinstance(record.time, Unknown)
    assert "Xyz" in record.time.unknown
    assert record.text == "NVRM: GPU is lost"


def test_a_day_that_does_not_exist_is_said() -> None:
    (record,) = log_of("Feb 31 19:38:04 pve1 kernel: NVRM: GPU is lost").records
    assert isinstance(record.time, Unknown)


def test_leap_day_without_a_year() -> None:
    (record,) = log_of("Feb 29 19:38:04 pve1 kernel: NVRM: GPU is lost").records
    assert not isinstance(record.time, Unknown)


def test_boots_command_line_and_other_processes() -> None:
    log = log_of((LOGS / "cases" / "two-boots.txt").read_text())
    assert [(boot.number, boot.kernel) for boot in log.boots] == [(0, "6.8.12-4-pve"), (1, "6.14.8-2-pve")]
    assert [record.boot for record in log.records] == [0, 0, 1, 1, 1, 1]
    assert log.skipped == ("1 messages of other processes",)
    (line,) = log.facts.command_lines
    assert line.text.endswith("quiet iommu=pt")
    assert line.line == 5


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("[0.000000] Hypervisor detected: KVM", "guest"),
        (
            "[0.000000] Booting paravirtualized kernel on KVM\n[1.000000] vfio-pci 0000:41:00.0: enabling device",
            "guest",
        ),
        ("[0.000000] Booting paravirtualized kernel on bare hardware", "host"),
        ("[1.000000] vfio-pci 0000:41:00.0: enabling device (0000 -> 0002)", "host"),
        ("[1.000000] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:884)", "unknown"),
        ('Linux cmdline: "iommu=pt pcie_acs_override=downstream"', "host"),
    ],
)
def test_origin(text: str, origin: str) -> None:
    assert log_of(text).origin == origin


def test_facts() -> None:
    log = log_of(
        "\n".join(
            f"[{number:12.6f}] {text}"
            for number, text in enumerate(
                (
                    "DMAR: DRHD base: 0x000000fbafe000 flags: 0x0",
                    "DMAR: DRHD base: 0x000000f4ffe000 flags: 0x1",
                    "DMAR: RMRR base: 0x000000bdffd000 end: 0x000000bdffffff",
                    "DMAR-IR: Enabled IRQ remapping in x2apic mode",
                    "iommu: Default domain type: Passthrough (set via kernel command line)",
                    "pci 0000:41:00.0: [10de:2bb5] type 00 class 0x030200 PCIe Endpoint",
                    "pci 0000:41:00.0: Adding to iommu group 12",
                    "iommu: Adding device 0000:42:00.0 to group 13",
                    "acpi PNP0A08:00: _OSC: platform does not support [AER LTR DPC]",
                    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.58.03  Release Build",
                    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 UTC 2025",
                    "nvidia 0000:41:00.0: enabling device (0000 -> 0002)",
                    "[drm] Initialized nvidia-drm 0.0.0 20160202 for 0000:42:00.0 on minor 1",
                )
            )
        )
    )
    facts = log.facts
    assert facts.iommu_units == 2
    assert [(region.start, region.end, region.line) for region in facts.regions] == [(0xBDFFD000, 0xBDFFFFFF, 3)]
    assert facts.remapping == "DMAR-IR: Enabled IRQ remapping in x2apic mode"
    assert facts.default_domain == "Passthrough"
    assert facts.devices["0000:41:00.0"].class_code == "030200"
    assert facts.groups == {"0000:41:00.0": 12, "0000:42:00.0": 13}
    assert facts.firmware_keeps == ("AER", "LTR", "DPC")
    assert [(driver.version, driver.flavor) for driver in facts.drivers] == [
        ("595.58.03", "open"),
        ("580.105.08", "proprietary"),
    ]
    assert facts.nvidia_gpus == ("0000:41:00.0", "0000:42:00.0")


def test_facts_that_are_not_there_are_unknown() -> None:
    facts = log_of("[1.000000] NVRM: hello").facts
    assert isinstance(facts.remapping, Unknown)
    assert isinstance(facts.default_domain, Unknown)
    assert facts.hypervisor is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A sentence that is long enough to have been wrapped, and a console's own line after it.
        ("[    1.000000] pci 0000:41:00.0: a message that goes on right to the edge of it", "[  OK  ] Started x."),
        ("[    1.000000] pci 0000:41:00.0: a message that goes on right to the edge of it", "root@pve1:~# lspci"),
        ("[    1.000000] pci 0000:41:00.0: short", "and then some prose"),
        ("NVRM: GPU 0000:05:00.0: RmInitAdapter failed! (0x24:0x72:1447) xx", "NVRM: GPU 0000:05:00.0: another"),
    ],
)
def test_what_is_no_rest_is_not_joined(before: str, after: str) -> None:
    texts = [record.text for record in log_of(f"{before}\n{after}").records]
    assert len(texts) == 2


def test_a_message_of_several_lines() -> None:
    text = (
        "[    5.015146] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR0 is 0M @ 0x0 (PCI:0000:41:00.0)\n"
    )
    (record,) = log_of(text).records
    assert record.text.endswith("is invalid: NVRM: BAR0 is 0M @ 0x0 (PCI:0000:41:00.0)")


def test_a_device_beside_a_kmsg_record() -> None:
    records = log_of((LOGS / "forms" / "kmsg.txt").read_text()).records
    assert [record.device for record in records] == [None, None, "0000:41:00.0", None]


@pytest.mark.parametrize("text", ["", "\n\n", "the printer is out of paper\nso what", "\x00\x01", "a,b,c\n1,2,3"])
def test_text_that_is_no_log(text: str) -> None:
    log = read(text)
    assert isinstance(log, Unknown)
    assert log.supply
    assert recognize(text) == 0.0


def test_nvidia_smi_and_lspci_are_no_logs() -> None:
    assert recognize("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08\nGCC version: gcc 12\n") == 0.0
    assert recognize("01:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)\n\tKernel driver in use: x") == 0.0


def test_many_equal_messages_are_counted() -> None:
    lines = [f"[{number:12.6f}] NVRM: Xid (PCI:0000:41:00): 31, pid={4000 + number}, x" for number in range(100)]
    log = log_of("\n".join(lines))
    assert len(log.records) == kernel_log_keep.SAME_KEPT
    last = log.records[-1]
    assert sum(record.count for record in log.records) == 100
    assert last.last_line == 100
    assert last.last_time.seconds == 99.0


def test_numbers_that_matter_keep_messages_apart() -> None:
    lines = [f"[1.000000] NVRM: Xid (PCI:0000:41:00): {number}, pid=4000, Ch 00000008" for number in (43, 45) * 20]
    log = log_of("\n".join(lines))
    assert len(log.records) == 2 * kernel_log_keep.SAME_KEPT


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log_keep, "TOPIC_KEPT", 10)
    monkeypatch.setattr(kernel_log_keep, "OTHERS_KEPT", 5)
    lines = [f"[1.000000] usb {number % 97}-{number // 97}: hello" for number in range(200)]
    lines += [f"[2.000000] pci 0000:{number:02x}:00.0: hello" for number in range(50)]
    log = read_lines(iter(lines))
    assert isinstance(log, KernelLog)
    assert len(log.records) == 15
    assert log.skipped == ("235 messages beyond the number that is kept",)
    assert log.lines == 250


def test_events_stream() -> None:
    """A log without an end gives its messages one by one."""

    def endless() -> Iterator[str]:
        for number in count():
            yield f"[{number:12.6f}] NVRM: message {number}\n"

    stream = events(endless())
    assert [next(stream).text for _ in range(3)] == ["NVRM: message 0", "NVRM: message 1", "NVRM: message 2"]


def test_a_line_without_end_is_cut() -> None:
    (record,) = log_of("[1.000000] NVRM: " + "x" * 1_000_000).records
    assert len(record.text) == MAX_TEXT
