"""What pasted texts say about a host is in the model, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.host.boot_files import grub_defaults, modprobe_files
from provision.host.from_documents import host_of, model_of
from provision.host.model import HostModel
from provision.host.paste_vms import NODE
from provision.readers.document import Document
from provision.readers.recognize import documents

PASTES = Path(__file__).parents[1] / "data" / "pastes"


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def read(*names: str, **texts: str) -> list[Document]:
    given = {f"{name}.txt": text_of(name) for name in names} | texts
    return [document for name, text in given.items() for document in documents(name, text)[0]]


def model(*names: str, **texts: str) -> HostModel:
    return model_of(read(*names, **texts))


def test_nothing_given_is_all_unknown() -> None:
    empty = model()
    assert empty.pci == ()
    assert isinstance(empty.kernel.running_cmdline, Unknown)
    assert isinstance(empty.proxmox.vms, Unknown)
    assert isinstance(empty.proxmox.mappings, Unknown)
    assert isinstance(empty.folders, Unknown)
    assert empty.boot.kind == "unknown"


def test_a_listing_gives_functions() -> None:
    assert [fn.bdf for fn in model("pci-listing").gpus()] == ["0000:41:00.0", "0000:61:00.0"]


def test_the_api_gives_functions_with_groups() -> None:
    for name in ("pvesh-json", "pvesh-json-table"):
        fn = model(name).function("0000:41:00.0")
        assert fn is not None
        assert (fn.vendor, fn.device, fn.iommu_group, fn.class_code >> 8) == (0x10DE, 0x2BB5, 31, 0x0302)
    fn = model("pvesh-json").function("0000:41:00.0")
    assert fn is not None
    assert (fn.subsystem_vendor, fn.subsystem_device) == (0x10DE, 0x204E)


def test_listing_and_groups_of_two_texts_are_put_together() -> None:
    both = model("pci-listing", "pvesh-json")
    fn = both.function("0000:41:00.0")
    assert fn is not None
    assert (fn.driver, fn.iommu_group) == ("vfio-pci", 31)
    assert host_of(read("pci-listing", "pvesh-json")).conflicts == ()


def test_the_running_command_line_and_the_file_are_told_apart() -> None:
    both = model("cmdline", "cmdline-file")
    assert isinstance(both.kernel.running_cmdline, str)
    assert "BOOT_IMAGE=" in both.kernel.running_cmdline
    assert both.files["/etc/kernel/cmdline"].content == text_of("cmdline-file")


def test_a_path_above_the_text_decides() -> None:
    given = model(**{"a.txt": "# cat /proc/cmdline\nroot=/dev/sda1 quiet\n"})
    assert given.kernel.running_cmdline == "root=/dev/sda1 quiet"
    assert given.files == {}


def test_a_log_of_the_host_gives_command_line_release_and_groups() -> None:
    given = model("kernel-log")
    assert isinstance(given.kernel.running_cmdline, str)
    assert given.kernel.running_cmdline.endswith("intel_iommu=on")
    assert given.kernel.release == "6.14.8-2-pve"
    assert [group.number for group in given.iommu.groups] == [7]


def test_what_a_guest_says_is_not_the_host() -> None:
    own = read("kernel-log")
    guests = [document.model_copy(update={"origin": "guest"}) for document in own]
    assert model_of(guests) == model()


def test_grub_and_modprobe_files_are_files_of_the_host() -> None:
    given = model("grub-default", "modprobe", more="==> /etc/modprobe.d/extra.conf <==\nblacklist nvidia\n")
    defaults = grub_defaults(given)
    assert not isinstance(defaults, Unknown)
    cmdline = defaults.cmdline()
    assert not isinstance(cmdline, Unknown)
    assert cmdline.render().split() == ["console=tty0", "quiet", "intel_iommu=on", "iommu=pt"]
    files = modprobe_files(given)
    assert not isinstance(files, Unknown)
    assert set(files) == {"/etc/modprobe.d/modprobe.conf", "/etc/modprobe.d/extra.conf"}


def test_the_lines_of_a_file_are_those_of_the_text() -> None:
    content = model("grub-default").files["/etc/default/grub"].content
    assert isinstance(content, str)
    pasted = text_of("grub-default").splitlines()
    assert [line for line in content.splitlines() if line.startswith("GRUB_")] == [
        line for line in pasted if line.startswith("GRUB_")
    ]
    assert content.splitlines().index('GRUB_CMDLINE_LINUX="console=tty0"') == pasted.index(
        'GRUB_CMDLINE_LINUX="console=tty0"'
    )


def test_a_command_line_that_a_mailer_broke() -> None:
    text = (
        'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet\nintel_iommu=on nomodeset\npanic"\nGRUB_TIMEOUT=5\nhello\n'
    )
    defaults = grub_defaults(model(one=text))
    assert not isinstance(defaults, Unknown)
    cmdline = defaults.cmdline()
    assert not isinstance(cmdline, Unknown)
    assert [token.raw for token in cmdline.kernel] == ["quiet", "intel_iommu=on", "nomodeset", "panic"]
    content = model(one=text).files["/etc/default/grub"].content
    assert isinstance(content, str)
    assert content.splitlines()[-1] == ""


def test_status_and_entries_decide_the_boot_loader() -> None:
    boot = model("proxmox-boot-tool-status", "efibootmgr").boot
    assert boot.kind == "systemd-boot"
    assert boot.cmdline_file == "/etc/kernel/cmdline"
    assert not isinstance(boot.esps, Unknown)
    assert any(esp.skipped for esp in boot.esps)


def test_a_vm_is_in_the_model_with_its_pending_changes() -> None:
    vms = model("vm-config").proxmox.vms
    assert not isinstance(vms, Unknown)
    (vm,) = vms
    assert (vm.vmid, vm.name, vm.config["memory"], vm.pending) == (100, "model", "65536", {"memory": "131072"})
    assert [(slot.index, slot.mapping) for slot in vm.hostpci] == [(0, "card")]
    assert isinstance(vm.status, Unknown)


def test_a_vm_of_the_api() -> None:
    vms = model("pvesh-json-vm").proxmox.vms
    assert not isinstance(vms, Unknown)
    assert (vms[0].config["machine"], vms[0].hostpci[0].mapping) == ("q35", "card")
    assert "digest" not in vms[0].config


@pytest.mark.parametrize(
    ("name", "text", "vmid"),
    [
        ("105.conf", "", 105),
        ("x.txt", "root@a:~# qm config 106\n", 106),
        ("backup/nodes/beta/qemu-server/107.conf", "", 107),
        ("notes.txt", "", 1),
    ],
)
def test_the_number_of_a_vm(name: str, text: str, vmid: int) -> None:
    vms = model(**{name: f"{text}bios: ovmf\ncores: 4\nmemory: 4096\nhostpci0: 0000:41:00\n"}).proxmox.vms
    assert not isinstance(vms, Unknown)
    assert [vm.vmid for vm in vms] == [vmid]


def test_two_vms_without_a_number_are_two() -> None:
    text = "bios: ovmf\ncores: 4\nmemory: 4096\nhostpci0: 0000:41:00\n"
    vms = model(one=text, two=text).proxmox.vms
    assert not isinstance(vms, Unknown)
    assert [vm.vmid for vm in vms] == [1, 2]


def test_a_line_of_a_configuration_is_no_vm() -> None:
    """What a guide or grep leaves out need not be missing on the host."""
    assert isinstance(model(one="hostpci0: mapping=card,pcie=1\nargs: -device x\n").proxmox.vms, Unknown)


def test_mappings_of_the_file_the_json_and_the_table() -> None:
    found = {name: model(name).proxmox.mappings for name in ("pci-cfg", "mapping-json", "mapping-json-table")}
    for mappings in found.values():
        assert not isinstance(mappings, Unknown)
        assert [mapping.id for mapping in mappings] == ["card", "net"]
        assert mappings[0].entries[0].iommugroup == 31
    content = model("pci-cfg").proxmox.mapping_file.content
    assert content == text_of("pci-cfg")


def test_map_values_in_a_program_are_no_mappings_of_the_host() -> None:
    assert isinstance(model("mapping-json-words").proxmox.mappings, Unknown)


def test_the_node_is_known_where_the_texts_tell_it() -> None:
    assert model("pci-cfg", "vm-config").proxmox.node == "alpha"
    assert model("vm-config").proxmox.node == NODE
    assert model(**{"nodes/beta/qemu-server/9107.conf": text_of("vm-config")}).proxmox.node == "beta"
    assert isinstance(model("pci-listing").proxmox.node, Unknown)
    two = text_of("pci-cfg") + text_of("pci-cfg").replace("card", "cards").replace("alpha", "beta")
    assert isinstance(model("vm-config", two=two).proxmox.node, Unknown)
