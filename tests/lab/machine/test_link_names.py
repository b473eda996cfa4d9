"""Names of network interfaces at a boot, by .link files, and the bridge that waits for one of them."""

from __future__ import annotations

import pytest

from provision.host.assemble import assemble
from provision.lab.faults import break_machine
from provision.lab.network_loss import NetworkLoss
from provision.lab.rootfs import Rootfs

MAC = "3c:ec:ef:5a:7c:10"
OWN = "etc/systemd/network/50-pvectl-nic0.link"
INTERFACES = "etc/network/interfaces"


def link(mac=MAC, name="nic0", key="MACAddress"):
    return f"# a comment\n[Match]\n{key}={mac}\n\n[Link]\nName={name}\n"


def names(built):
    built.reboot()
    return {i.mac: i.name for i in assemble(built.capture()).interfaces if isinstance(i.bdf, str)}


def is_up(built):
    return NetworkLoss(Rootfs(built.root)).is_up


def rename(built, old="eno1np0", new="nic0"):
    built.write(INTERFACES, built.text(INTERFACES).replace(old, new))


def test_without_files_names_are_the_kernels(epyc):
    assert names(epyc)[MAC] == "eno1np0"
    assert is_up(epyc)


def test_a_file_names_the_card_with_its_address_from_the_next_boot_on(epyc):
    assert epyc.facts
    epyc.write(OWN, link())
    rename(epyc)
    assert (epyc.root / "sys/class/net/eno1np0").exists()
    assert names(epyc) == {MAC: "nic0", "3c:ec:ef:5a:7c:11": "eno2np1"}
    assert is_up(epyc)
    assert not (epyc.root / "sys/class/net/eno1np0").is_symlink()
    bridge = next(i for i in assemble(epyc.capture()).interfaces if i.name == "nic0")
    assert "bridge vmbr0" in bridge.uses


@pytest.mark.parametrize("first", ["the link file alone", "the interfaces file alone"])
def test_a_bridge_whose_port_has_another_name_has_no_network(epyc, first):
    if first == "the link file alone":
        epyc.write(OWN, link())
    else:
        rename(epyc)
    names(epyc)
    assert not is_up(epyc)


def test_the_first_file_that_matches_counts(epyc):
    epyc.write("usr/local/lib/systemd/network/50-pmx-lan.link", link(name="lan"))
    epyc.write("etc/systemd/network/10-own.link", link(mac=MAC.upper(), name="own", key="PermanentMACAddress"))
    assert names(epyc)[MAC] == "own"
    epyc.write("etc/systemd/network/10-own.link", link(mac="02:00:00:00:00:01"))
    assert names(epyc)[MAC] == "lan"
    epyc.write("etc/systemd/network/50-pmx-lan.link", link(name="over"))
    assert names(epyc)[MAC] == "over", "/etc hides the file of the same name below"


def test_links_ignored(epyc):
    assert epyc.facts
    epyc.write(OWN, link())
    rename(epyc)
    break_machine(epyc.machine, epyc.root, "links-ignored")
    assert names(epyc)[MAC] == "eno1np0"
    assert not is_up(epyc)
