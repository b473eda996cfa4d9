from __future__ import annotations

import pytest

from provision.boot.cmdline import Cmdline, Token
from provision.boot.grub import DEFAULT_FILE, SNIPPET_FOLDER, GrubDefaults
from provision.boot.lint.cmdline import lint_cmdline, noop_of
from provision.boot.lint.files import lint_grub, lint_kernel_cmdline
from provision.boot.lint.modprobe import lint_modprobe, lint_modules
from provision.boot.lint.parameters import NAMES, REAL, ROWS
from provision.boot.lint.remark import LintFacts, Remark
from provision.boot.modprobe import ModprobeFile
from provision.evidence import Unknown
from provision.pci.model import PciFunction

AMD = LintFacts(cpu_vendor="AuthenticAMD", release="6.14.8-2-pve", gives_devices=True, functions=(), vital=frozenset())
INTEL = LintFacts(cpu_vendor="GenuineIntel", release="6.5.13-6-pve", gives_devices=True, functions=())


def said(text: str, facts: LintFacts | None = None) -> list[tuple[str, str, str]]:
    return [(r.kind, r.severity, r.subject) for r in lint_cmdline(Cmdline.parse(text), facts).remarks]


def words_of(pattern: str) -> str:
    return pattern.replace("*", "x1").replace("nvreg", "NVreg")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.pattern)
def test_every_row_is_found_by_its_own_word(row: object) -> None:
    word = words_of(row.pattern)  # type: ignore[attr-defined]
    vendor = row.only_on or "unknown"  # type: ignore[attr-defined]
    found = lint_cmdline(Cmdline.parse(word), LintFacts(cpu_vendor=vendor)).remarks
    assert any(r.text == row.text and r.severity == row.severity for r in found), found  # type: ignore[attr-defined]
    assert all(r.source and r.advice and r.text for r in found)


@pytest.mark.parametrize("name", sorted(REAL))
def test_no_real_parameter_is_called_misspelt(name: str) -> None:
    assert [r for r in lint_cmdline(Cmdline.parse(f"{name}=1")).of("misspelt") if "no parameter" in r.text] == []


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("pci_acs_override=downstream", "pcie_acs_override"),
        ("pcie_acs_overide=downstream", "pcie_acs_override"),
        ("intel_iomu=on", "intel_iommu"),
        ("amd-iomnu=off", "amd_iommu"),
        ("IOMMU=pt", "iommu"),
        ("vfio-pci.diable_vga=1", "disable_vga"),
        ("hugepagez=1G", "hugepages"),
        ("initcall_blackist=sysfb_init", "initcall_blacklist"),
    ],
)
def test_near_misses_are_named_with_what_is_meant(word: str, right: str) -> None:
    (remark,) = lint_cmdline(Cmdline.parse(word)).of("misspelt")
    assert right in remark.text
    assert remark.severity == "warning"


def test_dashes_and_underscores_are_one() -> None:
    assert said("intel-iommu=on vfio_pci.ids=10de:2bb5 pcie-acs-override=downstream") == [
        ("risky", "warning", "pcie-acs-override=downstream")
    ]


def test_names_are_known_as_real() -> None:
    assert NAMES < REAL


@pytest.mark.parametrize(
    ("word", "remarks"),
    [
        ("video=efifb:off,vesafb:off", [("misspelt", "info")]),
        ("video=vesafb:off,efifb:off", [("misspelt", "warning")]),
        ("video=efifb:off", [("no-op", "info")]),
        ("video=HDMI-A-1:1920x1080@60", []),
        ("video=efifb:off,HDMI-1:d", []),
    ],
)
def test_the_comma_form_of_video_reaches_the_first_driver_only(word: str, remarks: list[tuple[str, str]]) -> None:
    assert [(kind, severity) for kind, severity, _ in said(word)] == remarks


def test_on_a_proxmox_kernel_both_forms_of_video_do_nothing() -> None:
    assert said("video=vesafb:off,efifb:off", AMD) == [("no-op", "info", "video=vesafb:off,efifb:off")]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("intel_iommu=on intel_iommu=off", "error"),
        ("iommu=pt iommu=nopt", "warning"),
        ("iommu=pt iommu.passthrough=0", "warning"),
        ("vfio-pci.ids=10de:2bb5 iommu=off", "error"),
        ("pcie_acs_override=downstream pci=disable_acs_redir=0000:41:00.0", "warning"),
        ("default_hugepagesz=1G default_hugepagesz=2M", "warning"),
        ("root=/dev/sda1 root=/dev/sdb1", "warning"),
        ("hugepages=8 hugepagesz=1G", "warning"),
    ],
)
def test_contradictions(text: str, severity: str) -> None:
    found = lint_cmdline(Cmdline.parse(text)).of("contradictory")
    assert [r.severity for r in found] == [severity]


def test_a_value_that_is_none_contradicts_nothing() -> None:
    assert not lint_cmdline(Cmdline.parse("iommu=1 iommu=pt amd_iommu=on")).of("contradictory")


def test_what_belongs_to_init_is_not_the_kernels() -> None:
    assert said("quiet -- nofb iommu=off") == []


def test_an_old_intel_kernel_lacks_the_switch_and_a_new_one_does_not() -> None:
    assert said("quiet", INTEL) == [("missing", "error", "intel_iommu=on")]
    assert said("intel_iommu=on", INTEL) == []
    new = LintFacts(cpu_vendor="GenuineIntel", release="6.8.4-2-pve", gives_devices=True)
    assert said("quiet", new) == []


def test_a_vendor_that_is_not_known_is_a_doubt_on_a_host_and_none_on_a_pasted_line() -> None:
    host = LintFacts(release="6.14.8-2-pve", functions=())
    assert [d.subject for d in lint_cmdline(Cmdline.parse("intel_iommu=on"), host).doubts] == ["intel_iommu=on"]
    assert lint_cmdline(Cmdline.parse("intel_iommu=on")).doubts == ()


@pytest.mark.parametrize(
    ("word", "idle"),
    [
        ("amd_iommu=on", True),
        ("amd_iommu=on,pgtbl_v2", False),
        ("amd_iommu=on,pt", True),
        ("iommu=pt", False),
        ("iommu=1", True),
        ("intel_iommu=on", True),
        ("video=efifb:off", True),
        ("quiet", False),
        ("pci=noaer", False),
    ],
)
def test_only_words_that_surely_do_nothing_are_tidied(word: str, idle: bool) -> None:
    assert (noop_of(Token(word), "AuthenticAMD") is not None) is idle


def test_the_other_vendors_switch_is_kept_while_the_vendor_is_not_known() -> None:
    assert noop_of(Token("intel_iommu=on"), Unknown(unknown="denied")) is None


NVME = PciFunction(bdf="0000:03:00.0", vendor=0x144D, device=0xA80A, class_code=0x010802)
NIC = PciFunction(bdf="0000:04:00.0", vendor=0x8086, device=0x1563, class_code=0x020000)


@pytest.mark.parametrize(
    ("ids", "severities"),
    [("144d:a80a", ["error"]), ("8086:1563", []), ("10de:2bb5", []), ("144D:A80A,8086:1563", ["error"])],
)
def test_ids_are_compared_with_what_the_host_lives_on(ids: str, severities: list[str]) -> None:
    facts = LintFacts(functions=(NVME, NIC), vital=frozenset({NVME.bdf}))
    found = lint_cmdline(Cmdline.parse(f"vfio-pci.ids={ids}"), facts).of("risky")
    assert [r.severity for r in found] == severities


def test_ids_without_the_uses_are_a_doubt_and_without_a_host_a_warning() -> None:
    lint = lint_cmdline(Cmdline.parse("vfio-pci.ids=8086:1563"), LintFacts(functions=(NIC,)))
    assert [d.subject for d in lint.doubts] == ["8086:1563"]
    (remark,) = lint_cmdline(Cmdline.parse("vfio-pci.ids=144d:a80a")).remarks
    assert remark.severity == "warning"
    assert "root disk" in remark.text


GRUB = """\
GRUB_CMDLINE_LINUX_DEFAULT="quiet amd_iommu=on
 pcie_acs_override=downstream"
GRUB_CMDLINE_LINUX="quiet"
"""


def test_remarks_on_grub_name_file_and_line() -> None:
    lint = lint_grub(GrubDefaults({DEFAULT_FILE: GRUB}))
    places = {r.subject: (r.path, r.line) for r in lint.remarks}
    assert places["amd_iommu=on"] == (DEFAULT_FILE, 1)
    (twice,) = lint.of("duplicate")
    assert "GRUB_CMDLINE_LINUX and in GRUB_CMDLINE_LINUX_DEFAULT" in twice.text


def test_what_a_later_snippet_overwrites_is_named() -> None:
    files = {DEFAULT_FILE: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n'}
    over = GrubDefaults({**files, SNIPPET_FOLDER + "x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'})
    assert [r.subject for r in lint_grub(over).remarks] == ["quiet", "iommu=pt"]
    more = GrubDefaults(
        {**files, SNIPPET_FOLDER + "x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT x"\n'}
    )
    assert lint_grub(more).remarks == ()


def test_a_file_that_reads_others_is_no_whole_truth_and_its_words_are_judged_all_the_same() -> None:
    text = 'GRUB_CMDLINE_LINUX_DEFAULT="pci=noaer"\nfor f in /x/grub.d/*.cfg; do source "$f"; done\n'
    defaults = GrubDefaults({DEFAULT_FILE: text})
    assert isinstance(defaults.cmdline(), Unknown)
    assert [r.kind for r in lint_grub(defaults).remarks] == ["risky", "note"]


def test_a_root_on_zfs_leaves_the_boot_loader_open() -> None:
    lint = lint_grub(GrubDefaults({DEFAULT_FILE: 'GRUB_CMDLINE_LINUX="root=ZFS=rpool/ROOT/pve-1 boot=zfs"\n'}))
    assert ["proxmox-boot-tool" in r.text for r in lint.of("note")] == [True]


def test_the_file_of_systemd_boot_needs_its_root_in_the_first_line() -> None:
    assert lint_kernel_cmdline("root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet\n").remarks == ()
    found = lint_kernel_cmdline("quiet\nroot=ZFS=rpool/ROOT/pve-1\n").remarks
    assert [(r.kind, r.subject, r.line) for r in found] == [
        ("missing", "root=", 1),
        ("note", "root=ZFS=rpool/ROOT/pve-1", 2),
    ]


def modprobe(text: str) -> tuple[Remark, ...]:
    return lint_modprobe({"/etc/modprobe.d/x.conf": ModprobeFile.parse(text)}).remarks


def test_a_module_option_is_judged_where_it_stands() -> None:
    (remark,) = modprobe("# vfio\noptions vfio-pci ids=10de:2bb5\noptions vfio-pci diable_vga=1\n")
    assert (remark.subject, remark.line) == ("diable_vga", 3)
    assert "disable_vga is meant" in remark.text


def test_an_alias_with_its_id_binds() -> None:
    alias = "alias pci:v000010DEd00002BB5sv00001043sd00008000bc03sc02i00 vfio-pci\n"
    assert [r.subject for r in modprobe(alias)] == ["10de:2bb5"]
    assert modprobe(alias + "options vfio-pci ids=10de:2bb5\n") == ()


def test_ids_in_two_files_keep_the_last_alone() -> None:
    files = {
        f"/etc/modprobe.d/{name}.conf": ModprobeFile.parse(f"options vfio-pci ids={ids}\n")
        for name, ids in (("a", "10de:2bb5"), ("b", "10de:22e8"))
    }
    (remark,) = lint_modprobe(files).of("contradictory")
    assert "10de:22e8" in remark.text


def test_a_module_that_is_gone_is_named() -> None:
    assert [r.subject for r in lint_modules("vfio\nvfio_pci\nvfio_virqfd\n").remarks] == ["vfio_virqfd"]
