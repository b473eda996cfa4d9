"""boot-esp-unequal."""

from __future__ import annotations

import pytest

from provision.boot.loader import LoaderFacts, decide_loader
from provision.doctor.finding import Finding
from provision.doctor.rules.boot_esp_unequal import RULE
from provision.evidence import Unknown
from provision.host.model import BootLoader

UUIDS = "AAAA-0001\nAAAA-0002\n"
FIRST = "AAAA-0001 is configured with: uefi (versions: 6.14.8-2-pve)\n"
SKIPPED = "WARN: /dev/disk/by-uuid/AAAA-0002 does not exist - clean '/etc/kernel/proxmox-boot-uuids'! - skipping\n"
OTHER = "AAAA-0002 is configured with: grub (versions: 6.14.8-2-pve)\n"
RUNNING = "initrd=\\EFI\\proxmox\\6.14.8-2-pve\\initrd.img root=ZFS=rpool/ROOT/pve-1"


def boot(status: str) -> BootLoader:
    return decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=status, running_cmdline=RUNNING, root_type="zfs"))


@pytest.mark.parametrize(
    ("status", "said"), [(FIRST + SKIPPED, "AAAA-0002"), (FIRST + OTHER, "different boot loaders")]
)
def test_fires(build, status, said):
    (finding,) = RULE.check(build(boot=boot(status)).model())
    assert said in finding.summary
    assert any("AAAA-0001" in e.excerpt for e in finding.evidence)
    assert "proxmox-boot-tool clean" in finding.remedy


def test_is_silent_where_all_are_alike(build, healthy):
    assert list(RULE.check(healthy)) == []
    alike = FIRST + FIRST.replace("AAAA-0001", "AAAA-0002")
    assert list(RULE.check(build(boot=boot(alike)).model())) == []


def test_cannot_decide_without_the_status(build):
    loader = BootLoader(kind="systemd-boot", cmdline_file="/x", evidence=(), esps=Unknown(unknown="denied"))
    (unknown,) = RULE.check(build(boot=loader).model())
    assert "denied" in unknown.missing


def test_a_fact_is_cited_once_with_the_program_that_told_it(build):
    (finding,) = RULE.check(build(boot=boot(FIRST + SKIPPED)).model())
    told = {e.excerpt: e.source for e in finding.evidence}
    assert told[FIRST.strip()] == "/usr/sbin/proxmox-boot-tool status"
    assert not any(excerpt.startswith("proxmox-boot-tool status") for excerpt in told)


def test_a_hole_in_the_boot_order_is_no_matter_of_esps(build):
    efi = "BootCurrent: 0001\nBootOrder: 0001,0009\nBoot0001* proxmox\tHD(2,GPT)/File(\\EFI\\proxmox\\shimx64.efi)\n"
    loader = decide_loader(LoaderFacts(efibootmgr=efi))
    (finding,) = [one for one in RULE.check(build(boot=loader).model()) if isinstance(one, Finding)]
    assert "0009" in finding.summary
    assert all(word.startswith("efibootmgr") for word in finding.remedy)
    assert not any("unknown (" in one.excerpt for one in finding.evidence)
