"""What the running kernel shows: interrupts, huge pages, services, the boot screen, error counters, HA."""

from __future__ import annotations

import hashlib

import pytest

from provision.capture.model import Capture, Item, Manifest
from provision.evidence import Unknown
from provision.host import pci, proxmox, running
from provision.host.facts import Facts
from provision.host.model import HugePages
from provision.pci.model import ErrorCounts

PAGES = "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB"
DEVICE = "/sys/bus/pci/devices/0000:41:00.0"


def facts(files: dict[str, str | None], folders: dict[str, str] | None = None) -> Facts:
    """A capture of these files (``None``: looked for, not there) and folders."""
    found = [("file", key, text) for key, text in files.items()]
    found += [("dir", key, text) for key, text in (folders or {}).items()]
    items, blobs = [], {}
    for kind, key, text in found:
        data = (text or "").encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        state = "absent" if text is None else "read"
        items.append(Item(subject="host", key=key, kind=kind, state=state, sha256=digest))
    return Facts(Capture(Manifest(target="host", created=""), tuple(items), blobs))


@pytest.mark.parametrize(
    ("chips", "told"),
    [
        ({"1": "IR-IO-APIC\n", "9": "IO-APIC\n"}, True),
        ({"1": "IO-APIC\n", "9": None}, False),
        ({"1": "XT-PIC\n"}, None),
        ({}, None),
    ],
)
def test_remapped_interrupts_have_their_name(chips, told):
    found = running.interrupt_remapping(facts({f"/sys/kernel/irq/{n}/chip_name": t for n, t in chips.items()}))
    assert isinstance(found, Unknown) if told is None else found is told


@pytest.mark.parametrize(("text", "told"), [("Y\n", True), ("N\n", False), (None, None)])
def test_unsafe_interrupts(text, told):
    path = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
    assert running.unsafe_interrupts(facts({path: text})) is told


def test_huge_pages_by_node_and_size():
    both = {f"{PAGES}/nr_hugepages": "64\n", f"{PAGES}/free_hugepages": "60\n"}
    assert running.huge_pages(facts(both)) == (HugePages(node=1, size=1 << 30, total=64, free=60),)
    assert isinstance(running.huge_pages(facts({f"{PAGES}/nr_hugepages": "64\n"})), Unknown)
    assert isinstance(running.huge_pages(facts({})), Unknown)


def test_services_are_the_units_with_a_control_group():
    folder = {"/sys/fs/cgroup/system.slice": "cpu.stat\nnvidia-persistenced.service\nssh.service"}
    assert running.services(facts({}, folder)) == ("nvidia-persistenced.service", "ssh.service")
    assert isinstance(running.services(facts({})), Unknown)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("    90000000-907fffff : BOOTFB", (0x90000000, 0x907FFFFF)),
        ("    90000000-907fffff : simple-framebuffer.0", (0x90000000, 0x907FFFFF)),
        ("  90000000-9fffffff : 0000:01:00.0", None),
    ],
)
def test_the_boot_screen(line, told):
    assert running.boot_framebuffer(facts({"/proc/iomem": f"00001000-0009ffff : System RAM\n{line}\n"})) == told


def test_hidden_addresses_are_unknown():
    found = running.boot_framebuffer(facts({"/proc/iomem": "  00000000-00000000 : BOOTFB\n"}))
    assert isinstance(found, Unknown)


def test_error_counters_are_the_sums_at_the_end():
    totals = (("correctable", "COR", 7), ("nonfatal", "NONFATAL", 1), ("fatal", "FATAL", 0))
    files = {f"{DEVICE}/aer_dev_{name}": f"RxErr {n}\nTOTAL_ERR_{word} {n}\n" for name, word, n in totals}
    assert pci._errors(facts(files), DEVICE) == ErrorCounts(correctable=7, nonfatal=1, fatal=0)
    assert pci._errors(facts(dict.fromkeys(files)), DEVICE) is None
    assert isinstance(pci._errors(facts({}), DEVICE), Unknown)


def test_vms_under_ha():
    path = "/etc/pve/ha/resources.cfg"
    assert proxmox._ha_vms(facts({path: "vm: 100\n\tstate started\n\nct: 101\n\nvm: 205\n"})) == (100, 205)
    assert proxmox._ha_vms(facts({path: None})) == ()
    assert isinstance(proxmox._ha_vms(facts({})), Unknown)
