"""Each fault does what its line says."""

from __future__ import annotations

import pytest

from provision.errors import UsageError
from provision.host.assemble import assemble
from provision.lab import breakage, grub
from provision.lab.faults import FAULTS, break_machine, summaries
from provision.lab.install import install
from provision.pci.grouping import compare_present
from provision.pci.identity import identity

CFG = "etc/pve/mapping/pci.cfg"


def hit(built, name):
    assert built.facts
    before = built.capture()
    break_machine(built.machine, built.root, name)
    return assemble(before), assemble(built.capture())


def bdfs(model):
    return [gpu.bdf for gpu in model.gpus()]


def test_names():
    assert list(summaries()) == sorted(summaries())
    assert set(breakage.HARDWARE) == {fault.name for fault in FAULTS if fault.act is None}


def test_unknown_fault(epyc):
    with pytest.raises(UsageError, match="there is no fault flood"):
        break_machine(epyc.machine, epyc.root, "flood")


@pytest.mark.parametrize("name", ["gpu-swapped", "grub-broken", "mapping-damaged", "stale-mapping"])
def test_fault_that_does_not_fit(build, name):
    with pytest.raises(UsageError, match="does not fit"):
        break_machine(build("desktop-single-gpu").machine, build("desktop-single-gpu").root, name)


def test_renumber(epyc):
    before, after = hit(epyc, "renumber")
    assert bdfs(before)[1:] == [f"0000:{bus}:00.0" for bus in ("21", "41", "61", "81", "a1", "c1", "e1")]
    assert bdfs(after)[1:] == [f"0000:{bus}:00.0" for bus in ("22", "42", "62", "82", "a2", "c2", "e2")]
    assert [identity(gpu, before.pci) for gpu in before.gpus()] == [identity(gpu, after.pci) for gpu in after.gpus()]
    assert compare_present(after).result == "equal"
    assert {"/", "/boot/efi"} <= set(next(d for d in after.disks if d.name == "nvme0n1").uses)


def test_renumber_of_one_host_bridge(build):
    before, after = hit(build("workstation-shared-nic"), "renumber")
    assert bdfs(before)[0] == bdfs(after)[0]
    assert bdfs(before)[1] != bdfs(after)[1]


@pytest.mark.laws
def test_hardware_faults_outlive_a_reboot_and_add_up(epyc):
    hit(epyc, "renumber")
    hit(epyc, "gpu-missing")
    epyc.reboot()
    model = assemble(epyc.capture())
    assert bdfs(model) == [f"0000:{bus}:00.0" for bus in ("01", "22", "62", "82", "a2", "c2", "e2")]
    install(epyc.machine, epyc.root)
    epyc.reboot()
    assert len(assemble(epyc.capture()).gpus()) == 8


def test_gpu_swapped(epyc):
    before, after = hit(epyc, "gpu-swapped")
    one, two = (gpu.config.dsn for gpu in before.gpus()[:2])
    assert [gpu.config.dsn for gpu in after.gpus()[:2]] == [two, one]
    assert bdfs(before) == bdfs(after)


def test_iommu_off(epyc):
    _, after = hit(epyc, "iommu-off")
    assert after.iommu.units == ()
    assert after.iommu.firmware_table is None
    assert after.iommu.groups == ()


def test_acs_hidden(epyc):
    before, after = hit(epyc, "acs-hidden")
    assert len(after.iommu.groups) < len(before.iommu.groups)
    gpu = after.gpus()[2]
    assert gpu.parent in after.group_of(gpu.bdf).members
    assert after.function(gpu.parent).config.acs is None
    assert compare_present(after).result == "equal"


def test_rebar_off(epyc):
    _, after = hit(epyc, "rebar-off")
    assert {max(bar.size for bar in gpu.bars if bar.index < 6) for gpu in after.gpus()} == {256 << 20}
    assert after.gpus()[0].config.rebar is True


def test_link_narrow(epyc):
    _, after = hit(epyc, "link-narrow")
    assert [gpu.link.current_width for gpu in after.gpus()] == [4, *[16] * 7]
    assert after.function(after.gpus()[0].parent).link.current_width == 4


def test_stale_mapping_moves_every_number(epyc):
    before, after = hit(epyc, "stale-mapping")
    (old,), (new,) = before.proxmox.mappings, after.proxmox.mappings
    assert [e.iommugroup + 3 for e in old.entries] == [e.iommugroup for e in new.entries]
    assert [(e.path, e.id, e.subsystem_id) for e in old.entries] == [
        (e.path, e.id, e.subsystem_id) for e in new.entries
    ]


def test_mapping_edited(epyc):
    before, after = hit(epyc, "mapping-edited")
    assert len(after.proxmox.mappings) == len(before.proxmox.mappings) + 1
    assert after.proxmox.mapping_file.sha256 != before.proxmox.mapping_file.sha256


def test_mapping_edited_where_there_is_none(build):
    _, after = hit(build("desktop-single-gpu"), "mapping-edited")
    assert [m.id for m in after.proxmox.mappings] == ["added-by-hand"]


def test_mapping_damaged(epyc):
    _, after = hit(epyc, "mapping-damaged")
    (mapping,) = after.proxmox.mappings
    assert len(mapping.entries) == 7
    assert len(mapping.damaged) == 1


def test_vm_locked(epyc):
    _, after = hit(epyc, "vm-locked")
    assert after.proxmox.vms[0].lock == "backup"
    keys = [line.partition(":")[0] for line in after.proxmox.vms[0].config_text.splitlines()]
    assert keys == sorted(keys)


def test_cmdline_lost(epyc):
    hit(epyc, "cmdline-lost")
    old = epyc.facts.cmdline
    epyc.write("etc/default/grub.d/60.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="iommu=pt"\n')
    epyc.update_grub()
    assert "iommu=pt" in epyc.text(grub.GRUB_CFG)
    assert epyc.reboot().cmdline == old


def test_grub_broken(epyc):
    hit(epyc, "grub-broken")
    with pytest.raises(grub.GrubSyntaxError, match=r"99-local\.cfg"):
        epyc.update_grub()


UDEV = "etc/udev/rules.d/60-x.rules"
AWAKE = """ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x10de", ATTR{d3cold_allowed}="0"\n"""
MODPROBE = "options vfio-pci disable_idle_d3=1\nsoftdep nouveau pre: vfio-pci\n"


def power(built):
    """Whether the power of each GPU may be cut, and whether vfio-pci keeps its devices awake, after a boot."""
    built.update_initramfs()
    built.reboot()
    model = assemble(built.capture())
    return {gpu.d3cold_allowed for gpu in model.gpus()}, model.kernel.vfio_stays_awake


def test_what_keeps_gpus_awake_is_what_the_files_say(epyc):
    assert epyc.facts
    assert power(epyc) == ({True}, None), "vfio-pci is not loaded"
    epyc.write(UDEV, AWAKE)
    epyc.write("etc/modprobe.d/x.conf", MODPROBE)
    assert power(epyc) == ({False}, True)
    epyc.write("etc/modprobe.d/y.conf", "options vfio_pci disable_idle_d3=0\n")
    assert power(epyc) == ({False}, False), "the last word counts"


@pytest.mark.parametrize(("name", "after"), [("d3cold-ignored", ({True}, True)), ("idle-d3-ignored", ({False}, False))])
def test_what_keeps_gpus_awake_is_ignored(epyc, name, after):
    assert epyc.facts
    epyc.write(UDEV, AWAKE)
    epyc.write("etc/modprobe.d/x.conf", MODPROBE)
    assert power(epyc) == ({False}, True)
    break_machine(epyc.machine, epyc.root, name)
    assert power(epyc) == after
