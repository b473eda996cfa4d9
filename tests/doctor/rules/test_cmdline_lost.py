"""cmdline-lost."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_lost import RULE
from provision.evidence import Unknown
from provision.host.model import BootLoader

KERNEL, SNIPPET, GENERATED = "/etc/kernel/cmdline", "/etc/default/grub.d/own.cfg", "/boot/grub/grub.cfg"
BY_SYSTEMD_BOOT = BootLoader(kind="systemd-boot", cmdline_file=KERNEL, evidence=())


def test_fires_where_a_snippet_replaces_the_variable(build, examples):
    grub = examples.grub.replace("iommu=pt", "pcie_aspm=off")
    (finding,) = RULE.check(build(grub=grub, files={SNIPPET: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}).model())
    assert finding.summary.startswith("pcie_aspm=off gets lost")
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("/etc/default/grub", 3)


def test_fires_for_a_second_line_of_the_file_of_systemd_boot(build):
    files = {KERNEL: "root=ZFS=rpool/ROOT/pve-1 boot=zfs\n# comment\niommu=pt quiet\n"}
    (finding,) = RULE.check(build(files=files, boot=BY_SYSTEMD_BOOT).model())
    assert [(e.excerpt, e.line) for e in finding.evidence] == [("iommu=pt", 3), ("quiet", 3)]


def test_fires_where_the_generated_file_lacks_what_runs(build):
    (finding,) = RULE.check(build(files={GENERATED: "linux /boot/vmlinuz root=x ro quiet\n"}).model())
    assert finding.summary.startswith("iommu=pt gets lost")
    assert finding.remedy == ("update-grub",)


@pytest.mark.parametrize(
    "text", ['GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pcie_aspm=off"\n', "# empty\n"]
)
def test_is_silent_where_a_snippet_extends_the_variable(build, text):
    assert list(RULE.check(build(files={SNIPPET: text}).model())) == []


def test_is_silent_where_the_overwritten_word_comes_again(build):
    files = {SNIPPET: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n'}
    assert list(RULE.check(build(files=files).model())) == []


def test_cannot_decide_without_the_snippets(build):
    (unknown,) = RULE.check(build(changes={"folders": {}}).model())
    assert "/etc/default/grub.d" in unknown.missing


def test_cannot_decide_where_a_shell_must_read_the_file(build):
    (unknown,) = RULE.check(build(grub="for f in /x/*.cfg; do . $f; done\n").model())
    assert "shell" in unknown.missing


def test_cannot_decide_with_a_generated_file_that_was_not_read(build):
    model = build(files={GENERATED: ""}).model()
    state = model.files[GENERATED].model_copy(update={"content": Unknown(unknown="denied")})
    (unknown,) = RULE.check(model.model_copy(update={"files": {**model.files, GENERATED: state}}))
    assert unknown.missing == f"{GENERATED}: denied"
