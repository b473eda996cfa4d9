"""A boot does what the files on the disk say, as a kernel would."""

from __future__ import annotations

import pytest

from provision.errors import PvectlError
from provision.lab import esp, kernel
from provision.lab.boot import boot, kernel_state
from provision.lab.layout import lay_out
from provision.lab.machine import load_machine
from provision.lab.parts import Acs
from provision.lab.variants import rebuilt
from provision.pci.config import decode

GPU = "0000:41:00.0"
PORT = "0000:40:01.1"


def set_cmdline(built, options):
    """Change GRUB's defaults, run update-grub, and return what the next boot brings."""
    text = built.text("etc/default/grub")
    lines = [
        f'GRUB_CMDLINE_LINUX_DEFAULT="{options}"' if line.startswith("GRUB_CMDLINE_LINUX_DEFAULT=") else line
        for line in text.splitlines()
    ]
    built.write("etc/default/grub", "\n".join(lines) + "\n")
    built.update_grub()
    return built.state()


def test_first_boot(epyc):
    assert (
        epyc.facts.cmdline == "BOOT_IMAGE=/boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet amd_iommu=on"
    )
    assert epyc.text("proc/cmdline") == epyc.facts.cmdline + "\n"
    assert epyc.text("proc/sys/kernel/random/boot_id") == epyc.facts.boot_id + "\n"
    assert epyc.facts.drivers[GPU] == "nouveau"
    assert (epyc.device(GPU) / "driver").resolve() == (epyc.root / "sys/bus/pci/drivers/nouveau").resolve()


def test_only_one_boot_is_the_first(epyc):
    assert epyc.facts
    with pytest.raises(PvectlError, match="it has run already"):
        boot(epyc.machine, epyc.root, first=True)


def test_reboot_forgets_what_is_not_on_disk(epyc):
    before = epyc.facts.boot_id
    epyc.write("run/pvectl/token", "1")
    (epyc.root / "run/link").symlink_to("pvectl")
    epyc.write("var/lib/pvectl/kept", "1")
    stray = epyc.root / "sys/bus/pci/stray"
    stray.touch()
    epyc.reboot()
    assert epyc.facts.boot_id != before
    assert not (epyc.root / "run/pvectl").exists()
    assert not (epyc.root / "run/link").is_symlink()
    assert not stray.exists()
    assert epyc.text("var/lib/pvectl/kept") == "1"
    assert not (epyc.root / ".sys.old").exists()


def test_boot_without_a_kernel_says_so(epyc):
    for path in (epyc.root / "boot").glob("vmlinuz-*"):
        path.unlink()
    with pytest.raises(PvectlError, match="finds no kernel"):
        epyc.reboot()


def test_edit_without_update_grub_changes_nothing(epyc):
    epyc.write("etc/default/grub.d/60-more.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n')
    assert "iommu=pt" not in epyc.state().cmdline
    epyc.update_grub()
    assert epyc.state().cmdline.endswith("quiet amd_iommu=on iommu=pt")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("quiet", "DMA-FQ"),
        ("quiet iommu=pt", "identity"),
        ("iommu=pt iommu=nopt", "DMA-FQ"),
        ("iommu.passthrough=1", "identity"),
        ("iommu.strict=1", "DMA"),
    ],
)
def test_group_type(epyc, options, kind):
    assert set_cmdline(epyc, options).group_type == kind


def test_group_type_is_written(epyc):
    set_cmdline(epyc, "iommu=pt")
    epyc.reboot()
    assert epyc.text(f"sys/kernel/iommu_groups/{epyc.group(GPU)}/type") == "identity\n"


@pytest.mark.parametrize("options", ["amd_iommu=off", "iommu=off", "quiet iommu=pt,off"])
def test_iommu_off(epyc, options):
    state = set_cmdline(epyc, options)
    assert not state.iommu_on
    assert state.groups == ()
    assert state.acs[PORT] == 0


def test_iommu_off_is_written(epyc):
    set_cmdline(epyc, "amd_iommu=off")
    epyc.reboot()
    assert epyc.group(GPU) is None
    assert list((epyc.root / "sys/class/iommu").iterdir()) == []
    assert list((epyc.root / "sys/kernel/iommu_groups").iterdir()) == []
    assert decode((epyc.device(PORT) / "config").read_bytes()).acs.control == 0
    assert (epyc.root / "sys/firmware/acpi/tables/IVRS").exists()


def test_intel_parameters_mean_nothing_to_amd(epyc):
    assert set_cmdline(epyc, "intel_iommu=off").iommu_on


def test_kernel_turns_access_control_on(epyc):
    state = epyc.state()
    assert state.acs[PORT] == 0x1D
    assert state.acs["0000:02:00.4"] == 0


def test_disabled_redirection_merges_the_port_and_moves_numbers(epyc):
    before = epyc.state()
    after = set_cmdline(epyc, f"pci=disable_acs_redir={PORT}")
    assert after.acs[PORT] == 0
    assert after.group_of(PORT) == after.group_of(GPU)
    assert before.group_of(PORT) != before.group_of(GPU)
    assert after.group_of("0000:e1:00.0") < before.group_of("0000:e1:00.0")


def test_config_acs_takes_the_firmware_value_for_x(build):
    machine = rebuilt(
        load_machine("epyc-8x-rtxpro6000"),
        lambda f: f.model_copy(update={"acs": Acs(capability=0x5F, firmware=0x11)}) if f.slot == "3" else f,
    )
    built = build(machine)
    assert set_cmdline(built, f"pci=config_acs=xx01xx0@{PORT}").acs[PORT] == 0x08
    assert set_cmdline(built, f"pci=config_acs=xxxxx0x@{PORT}").acs[PORT] == 0x11
    state = set_cmdline(built, f"pci=config_acs=0011101@{PORT}")
    assert state.acs[PORT] == 0x1D
    assert state.group_of(PORT) != state.group_of(GPU)


def test_override_splits_the_group_of_the_chipset(build):
    built = build("workstation-shared-nic")
    nic, gpu = "0000:06:00.0", "0000:04:00.0"
    state = built.state()
    assert state.group_of(nic) == state.group_of(gpu)
    state = set_cmdline(built, "quiet pcie_acs_override=downstream,multifunction")
    assert state.group_of(nic) != state.group_of(gpu)


RULE = (
    'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bdf}", ATTR{{vendor}}=="0x10de", ATTR{{device}}=="{device}", '
    'ATTR{{driver_override}}="vfio-pci"\n'
)


def test_udev_rule_binds_one_device_where_the_module_is_loaded(epyc):
    epyc.write("etc/udev/rules.d/90-vfio.rules", "# ours\n" + RULE.format(bdf=GPU, device="0x2bb5"))
    facts = epyc.reboot()
    assert GPU not in facts.drivers
    assert (epyc.device(GPU) / "driver_override").read_text() == "vfio-pci\n"
    assert not (epyc.root / "dev/vfio").exists()
    epyc.write("etc/modules-load.d/vfio.conf", "vfio-pci\n")
    facts = epyc.reboot()
    assert facts.drivers[GPU] == "vfio-pci"
    assert facts.drivers["0000:61:00.0"] == "nouveau"
    assert (epyc.root / f"dev/vfio/{epyc.group(GPU)}").exists()
    assert "vfio_iommu_type1" in epyc.text("proc/modules")


def test_udev_rule_for_another_device_or_address_binds_nothing(epyc):
    epyc.write("etc/modules", "vfio-pci\n")
    rules = RULE.format(bdf=GPU, device="0x2bb1") + RULE.format(bdf="0000:99:00.0", device="0x2bb5")
    rules += f'KERNEL=="{GPU}", ATTR{{driver_override}}="vfio-pci", and what is no rule\n'
    rules += f'ENV{{ID}}=="1", KERNEL=="{GPU}", ATTR{{driver_override}}="vfio-pci"\n'
    epyc.write("etc/udev/rules.d/90-vfio.rules", rules)
    assert epyc.state().drivers[GPU] == "nouveau"


def test_rules_that_load_the_module_themselves(epyc):
    rule = RULE.format(bdf=GPU, device="0x2bb5").rstrip("\n")
    epyc.write("etc/udev/rules.d/90-vfio.rules", rule + ', RUN{builtin}+="kmod load vfio-pci"\n')
    assert epyc.state().drivers[GPU] == "vfio-pci"
    epyc.write("etc/udev/rules.d/90-vfio.rules", rule + ', RUN+="/sbin/modprobe -b vfio-pci"\n')
    assert epyc.state().drivers[GPU] == "vfio-pci"


def test_a_file_in_etc_hides_one_of_the_same_name(epyc):
    epyc.write("etc/modules", "vfio-pci\n")
    epyc.write("usr/lib/udev/rules.d/90-vfio.rules", RULE.format(bdf=GPU, device="0x2bb5"))
    assert epyc.state().drivers[GPU] == "vfio-pci"
    epyc.write("etc/udev/rules.d/90-vfio.rules", "\n")
    assert epyc.state().drivers[GPU] == "nouveau"


def test_override_to_another_driver_leaves_the_device_alone(epyc):
    epyc.write("etc/udev/rules.d/90.rules", RULE.format(bdf=GPU, device="0x2bb5").replace("vfio-pci", "none"))
    assert GPU not in epyc.state().drivers


def test_blacklists(epyc):
    epyc.write("etc/modprobe.d/gpu.conf", "blacklist nouveau\n")
    assert GPU in epyc.state().drivers, "the early boot has its own copy"
    epyc.update_initramfs()
    assert GPU not in epyc.state().drivers
    epyc.write("etc/modprobe.d/gpu.conf", "install nouveau /bin/false\n")
    epyc.update_initramfs()
    assert GPU not in epyc.state().drivers
    epyc.write("etc/modprobe.d/gpu.conf", "")
    epyc.update_initramfs()
    assert GPU not in set_cmdline(epyc, "modprobe.blacklist=nouveau,ast").drivers
    assert epyc.state().drivers["0000:42:00.0"] == "i40e"


def test_ids_take_every_card_of_the_model(epyc):
    epyc.write(
        "etc/modprobe.d/vfio.conf", "options vfio-pci ids=10DE:2BB5 disable_vga=1\nsoftdep nouveau pre: vfio-pci\n"
    )
    epyc.update_initramfs()
    drivers = epyc.state().drivers
    assert sum(driver == "vfio-pci" for driver in drivers.values()) == 8
    epyc.write("etc/modprobe.d/nouveau.conf", "blacklist nouveau\n")
    epyc.update_initramfs()
    assert "vfio-pci" not in epyc.state().drivers.values()


def test_ids_on_the_command_line(epyc):
    epyc.write("etc/initramfs-tools/modules", "vfio_pci\n")
    epyc.update_initramfs()
    assert set_cmdline(epyc, "vfio-pci.ids=10de:2bb5").drivers[GPU] == "vfio-pci"


def test_systemd_boot(build):
    built = build("desktop-single-gpu")
    assert built.facts.cmdline == (
        "initrd=\\EFI\\proxmox\\6.14.11-4-pve\\initrd.img-6.14.11-4-pve root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet"
    )
    set_cmdline(built, "iommu=pt")
    assert "iommu=pt" not in built.state().cmdline
    built.write("etc/kernel/cmdline", "root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet iommu=pt\nsecond line\n")
    assert "iommu=pt" not in built.state().cmdline
    assert esp.refresh(built.root).rc == 0
    assert built.state().cmdline.endswith("boot=zfs quiet iommu=pt")


def test_refresh_without_a_root_device_fails(build):
    built = build("desktop-single-gpu")
    built.write("etc/kernel/cmdline", "quiet\n")
    done = esp.refresh(built.root)
    assert (done.rc, done.stderr) == (1, "No root= parameter in /etc/kernel/cmdline found!\n")


def test_refresh_without_a_file_takes_the_running_line(build):
    built = build("desktop-single-gpu")
    before = built.facts.cmdline
    (built.root / "etc/kernel/cmdline").unlink()
    assert esp.refresh(built.root).rc == 0
    assert built.state().cmdline == before


def test_refresh_skips_an_esp_that_is_not_there_and_drops_old_entries(build):
    built = build("desktop-single-gpu")
    built.write("etc/kernel/proxmox-boot-uuids", "AAAA-0001\n2F8B-6C10\n")
    (built.root / "boot/vmlinuz-6.14.8-2-pve").unlink()
    done = esp.refresh(built.root)
    assert done.rc == 0
    assert "AAAA-0001" in done.stderr
    assert "skipping" in done.stderr
    entries = esp.esp_folder(built.root, "2F8B-6C10") / "loader/entries"
    assert [path.name for path in entries.iterdir()] == ["proxmox-6.14.11-4-pve.conf"]


def test_state_without_a_boot(epyc):
    layout, state = kernel_state(epyc.machine, epyc.root)
    assert state.groups == epyc.facts.groups
    assert layout == lay_out(epyc.machine)
    assert state.group_of("0000:00:00.2") is None


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("quiet  a=b", (("quiet", None), ("a", "b"))),
        ('x="a b" y', (("x", "a b"), ("y", None))),
        ("", ()),
    ],
)
def test_parameters(text, parameters):
    assert kernel.parameters(text) == parameters


@pytest.mark.parametrize(
    ("options", "pages"),
    [
        ("quiet", {}),
        ("hugepages=3", {2 << 20: (2, 1)}),
        ("default_hugepagesz=1G hugepages=8", {1 << 30: (4, 4)}),
        ("default_hugepagesz=1G hugepagesz=1G hugepages=0:4,1:8", {1 << 30: (4, 8)}),
        ("hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=10", {1 << 30: (1, 1), 2 << 20: (5, 5)}),
    ],
)
def test_reserved_pages(options, pages):
    assert kernel.reserved_pages(kernel.parameters(options), 2) == pages


def test_reserved_pages_are_written(epyc):
    set_cmdline(epyc, "default_hugepagesz=1G hugepages=512")
    epyc.reboot()
    node = "sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages"
    assert epyc.text(node) == "256\n"
    assert "HugePages_Total:   512\n" in epyc.text("proc/meminfo")
