from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.boot.interfaces import InterfacesFile
from provision.boot.link_file import LinkFile

TEXT = """\
# eno1 is the uplink
auto lo
iface lo inet loopback

iface eno1 inet manual
#eno1
iface eno10 inet manual

auto eno1.20
iface eno1.20 inet static
\taddress 192.0.2.5/24

auto bond0
iface bond0 inet manual
\tbond-slaves eno1  enp65s0f0np0
\tbond-primary eno1

auto vmbr0
iface vmbr0 inet static
\tbridge-ports bond0
\tpost-up ethtool -K eno1 gro off
iface eno1:0 inet static
"""


@given(st.text(max_size=200))
def test_any_text_is_given_back(text: str) -> None:
    assert InterfacesFile.parse(text).render() == text
    assert InterfacesFile.parse(text).rename({"eno9": "nic9"}).render() == text or "eno9" in text


def test_words_are_renamed_and_every_other_byte_stays() -> None:
    renamed = InterfacesFile.parse(TEXT).rename({"eno1": "nic0", "enp65s0f0np0": "nic1"}).render()
    expected = (
        TEXT.replace("iface eno1 ", "iface nic0 ")
        .replace("eno1.20", "nic0.20")
        .replace("bond-slaves eno1  enp65s0f0np0", "bond-slaves nic0  nic1")
        .replace("bond-primary eno1", "bond-primary nic0")
        .replace("-K eno1 gro", "-K nic0 gro")
        .replace("eno1:0", "nic0:0")
    )
    assert renamed == expected
    assert "iface eno10 " in renamed
    assert "# eno1 is the uplink" in renamed
    assert "#eno1\n" in renamed


def test_two_interfaces_may_change_places() -> None:
    file = InterfacesFile.parse("bridge-ports a b\n").rename({"a": "b", "b": "a"})
    assert file.render() == "bridge-ports b a\n"


@pytest.mark.parametrize(
    ("line", "doubtful"),
    [
        ("\tpost-up echo 1 > /sys/class/net/eno1/device/x", True),
        ("\tpost-up ip link set eno1 up;", False),
        ('\tpost-up sh -c "ip link set eno1; true"', True),
        ("\tpost-up ethtool eno10", False),
        ("# /sys/class/net/eno1", False),
        ("iface eno1.20 inet manual", False),
    ],
)
def test_a_name_inside_a_longer_word_is_for_a_person(line: str, doubtful: bool) -> None:
    assert bool(InterfacesFile.parse(f"auto lo\n{line}\n").doubtful("eno1")) is doubtful


def test_link_files() -> None:
    link = LinkFile.parse(
        "# x\n[Match]\nMACAddress=AA:BB:CC:00:11:22 aa:bb:cc:00:11:23\nType=ether\n\n[Link]\nName=nic0\n"
    )
    assert link.macs == ("aa:bb:cc:00:11:22", "aa:bb:cc:00:11:23")
    assert link.name == "nic0"
    assert LinkFile.parse("[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep\n") == LinkFile((), None)
