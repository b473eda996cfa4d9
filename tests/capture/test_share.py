"""The parts of a bundle: addresses that keep their networks, texts, configuration space; nothing new slips in."""

from __future__ import annotations

import ipaddress
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.capture.share import share
from provision.capture.share_addresses import AddressBook, is_anonymous
from provision.capture.share_binary import config_space
from provision.capture.share_names import Pseudonyms
from provision.capture.share_rules import COMMANDS, FOLDERS, LINKS, file_rules, rule_for
from provision.capture.share_scrub import scrub
from provision.capture.store import load, save
from provision.capture.wants import HOST_WANTS
from provision.cli.app import run
from provision.pci.config import decode

KEY = b"k" * 32


def names() -> Pseudonyms:
    return Pseudonyms(KEY)


@given(st.ip_addresses(v=4), st.ip_addresses(v=4), st.integers(8, 32))
def test_networks_stay_networks(one, other, length):
    book = AddressBook(KEY)
    if is_anonymous(one) or is_anonymous(other):
        return
    net, together = ipaddress.ip_network, []
    for first, second in ((one, other), (book.other(one), book.other(other))):
        together.append(second in net((first, length), strict=False))
    assert together[0] == together[1]
    assert (one == other) == (book.other(one) == book.other(other))
    assert book.other(one).is_link_local == one.is_link_local


@given(st.ip_addresses(v=6), st.integers(16, 127))
def test_version_six_too(address, length):
    book = AddressBook(KEY)
    if is_anonymous(address):
        return
    network = ipaddress.ip_network((address, length), strict=False).network_address
    if is_anonymous(network):
        return
    other = book.network(network, length)
    assert book.other(address) in ipaddress.ip_network((other, length))
    assert other.is_link_local == network.is_link_local


@pytest.mark.parametrize("text", ["0.0.0.0", "127.0.0.1", "255.255.255.0", "255.255.255.255", "::", "::1", "ff02::1"])
def test_addresses_that_name_nobody_stay(text):
    assert scrub(f"x {text} y", names()) == f"x {text} y"


@pytest.mark.parametrize(
    "text",
    [
        "0000:41:00.0 [10de:2bb5] (rev a1)",
        "intel_iommu=on iommu=pt vfio-pci.ids=10de:2bb5,10de:22e8 pcie_acs_override=downstream,multifunction",
        "BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet",
        "pci:v000010DEd00002BB5sv000010DEsd0000204Ebc03sc02i00",
        "0x0000145000000000 0x0000145003ffffff 0x000000000014220c",
        "options vfio-pci ids=10de:2bb5 disable_vga=1",
        "/etc/modprobe.d/pve-blacklist.conf /lib/firmware/nvidia/570.86/gsp_tu10x.bin",
        "serial0: socket\nconsole=ttyS0,115200n8 12:34:56 2025-01-01T00:00:00Z",
        "pve-manager/9.0.11/14a22df35955d97d (running kernel: 6.14.11-4-pve)",
        "args: -cpu host,phys-bits=46 -global q35-pcihost.pci-hole64-size=2048G",
        "nvidia-persistenced.service systemd-networkd.service systemd 257 (257.8-1~deb13u2)",
        "hostpci0: mapping=gpu,pcie=1,x-vga=0,rombar=1",
    ],
)
def test_what_is_no_secret_stays(text):
    assert scrub(text, names()) == text


def test_the_same_thing_has_the_same_pseudonym():
    table = names()
    text = scrub("3c:ec:ef:12:34:56 3C-EC-EF-12-34-56 enx3cecef123456 10.1.2.3 10.1.2.3/24", table)
    mac, upper, packed, bare, cidr = text.split()
    assert mac == "02:00:00:00:00:01"
    assert upper.lower().replace("-", ":") == mac
    assert packed == "enx" + mac.replace(":", "")
    assert cidr == f"{bare}/24"
    assert scrub("again 10.1.2.3", table) == f"again {bare}"


def test_other_spellings_are_found():
    table = names()
    host = table.name("host name", "kestrel7")
    for text in ("KESTREL7", "kestrel7-backup", "my_kestrel7_x", "/mnt/kestrel7", "kestrel7:/export", "kestrel7."):
        assert "kestrel7" not in scrub(text, table).lower()
        assert host in scrub(text, table)
    assert scrub("kestrel77 xkestrel7", table) == "kestrel77 xkestrel7"
    assert "c500a1b2" not in scrub("wwn-0x5000c500a1b2c3d4 naa.5000c500a1b2c3d4", table)
    assert scrub("00:11:22:33:44:55:66:77", table).startswith("02:00:")


@given(st.text(max_size=300))
def test_no_text_raises_and_lines_stay(text):
    assert scrub(text, names()).count("\n") == text.count("\n")


@given(st.binary(max_size=300) | st.binary(min_size=256, max_size=256))
def test_no_configuration_space_raises_or_changes_its_meaning(data):
    other = config_space(data, names())
    if other is not None and len(data) == 256:
        assert decode(other) == decode(data)


def test_a_long_text_takes_linear_time():
    for text in (
        "a." * 50_000,
        "AAAA" * 25_000,
        "1." * 50_000,
        "f:" * 50_000,
        "x@" * 50_000,
        "-----BEGIN A-----" * 5_000,
    ):
        scrub(text, names())


def spelled(pattern: str) -> list[str]:
    """Expand the alternatives of a pattern, ``/proc/{a,b}``."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    return [
        one for word in match[1].split(",") for one in spelled(pattern[: match.start()] + word + pattern[match.end() :])
    ]


def test_every_fact_that_is_read_has_a_rule():
    tables = {"file": file_rules(()), "link": LINKS, "dir": FOLDERS, "command": COMMANDS}
    missing = [
        key
        for want in HOST_WANTS
        for key in (spelled(want.pattern) if want.pattern else [want.key or " ".join(want.argv)])
        if rule_for(key.replace("*", "x"), tables[want.kind]) is None
    ]
    assert missing == []


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    from lab_captures import capture_of

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PVECTL_INVENTORY", raising=False)
    capture = capture_of("desktop-single-gpu", "", tmp_path / "root")
    save(capture, tmp_path / "host.tar.gz")
    words = ["capture", "--share", "--from", "host.tar.gz", "bundle.tar.gz"]
    assert run([*words, "--keep-table", "table.json"]) == 0
    out = capsys.readouterr().out
    assert "replaced:\n" in out
    assert "MAC address" in out
    assert "doctor says the same of the bundle as of the host" in out
    assert capture.manifest.hostname not in out
    table = json.loads((tmp_path / "table.json").read_text("utf-8"))
    assert capture.manifest.hostname in table["host name"]
    assert (tmp_path / "table.json").stat().st_mode & 0o777 == 0o600
    assert load(tmp_path / "bundle.tar.gz").manifest.hostname == "host-1"
    assert run(words) == 64
    assert run([*words, "--force", "--keep-table", "table.json"]) == 64
    capsys.readouterr()
    assert run([*words, "--force", "--output", "json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["doctor_differs"] == []
    assert data["replaced"]["host name"] == 1
    assert data["table"] is None
    assert run(["capture", "--from", "host.tar.gz"]) == 64
    assert run(["capture", "local", "--share", "--from", "host.tar.gz", "x.tar.gz"]) == 64
    assert run(["doctor", "--from", "bundle.tar.gz", "--fail-on", "never"]) == 0


def test_a_bundle_of_a_bundle_is_a_bundle(tmp_path):
    from lab_captures import capture_of

    first = share(capture_of("workstation-shared-nic", "", tmp_path / "root")).capture
    second = share(first).capture
    assert [item.state for item in second.items] == [item.state for item in first.items]
