"""The product reads a lab host as the machine file describes it."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.host.assemble import assemble
from provision.pci.grouping import compare_present


def test_groups_are_reproduced(built):
    comparison = compare_present(assemble(built.capture()))
    assert (comparison.result, comparison.details) == ("equal", ())


def test_every_function_is_read(built):
    from provision.lab.layout import lay_out

    model = assemble(built.capture())
    layout = lay_out(built.machine)
    assert [f.bdf for f in model.pci] == [str(p.bdf) for p in layout.functions]
    for function, placed in zip(model.pci, layout.functions, strict=True):
        assert (function.vendor, function.device) == placed.part.ids
        assert function.class_code == placed.part.class_code
        assert function.root_acpi_path == placed.bridge.acpi
        assert function.parent == (str(placed.parent) if placed.parent else None)
        assert function.numa_node == placed.bridge.numa
        assert {(b.index, b.start, b.size) for b in function.bars if b.index < 6} == {
            (b.index, b.start, b.size) for b in placed.bars
        }
        assert function.driver == built.facts.drivers.get(function.bdf)
        assert function.iommu_group == built.group(function.bdf)


def test_kernel_facts(epyc):
    model = assemble(epyc.capture())
    assert model.kernel.release == "6.14.11-4-pve"
    assert model.kernel.running_cmdline == epyc.facts.cmdline
    assert model.kernel.boot_id == epyc.facts.boot_id
    assert model.kernel.cpu_vendor == "AuthenticAMD"
    assert model.kernel.phys_bits == 52
    assert model.kernel.numa_nodes == (0, 1)
    assert model.iommu.firmware_table == "IVRS"
    assert model.iommu.units == tuple(f"ivhd{n}" for n in range(8))


def test_gpus_and_ports_of_the_epyc(epyc):
    model = assemble(epyc.capture())
    gpus = model.gpus()
    assert [gpu.bdf for gpu in gpus] == [f"0000:{bus}:00.0" for bus in ("01", "21", "41", "61", "81", "a1", "c1", "e1")]
    assert [gpu.numa_node for gpu in gpus] == [0] * 4 + [1] * 4
    assert len({gpu.config.dsn for gpu in gpus}) == 8
    assert {tuple(b.size for b in gpu.bars if b.index < 6) for gpu in gpus} == {(64 << 20, 128 << 30, 32 << 20)}
    for gpu in gpus:
        port = model.function(gpu.parent)
        assert port.ids == "1022:153e"
        assert (port.config.acs.offset, port.config.acs.capability, port.config.acs.control) == (0x2A0, 0x5F, 0x1D)
        assert port.config.prefetch_window[1] - port.config.prefetch_window[0] > 128 << 30


def test_what_the_host_lives_on(epyc):
    model = assemble(epyc.capture())
    system = next(disk for disk in model.disks if disk.name == "nvme0n1")
    assert system.bdf == "0000:22:00.0"
    assert {"/", "/boot/efi", "swap"} <= set(system.uses)
    assert next(disk for disk in model.disks if disk.name == "nvme1n1").bdf == "0000:23:00.0"


def test_management_interface(built):
    model = assemble(built.capture())
    nic = next(i for i in model.interfaces if i.name == built.machine.interfaces[0].name)
    assert nic.bdf is not None
    assert "bridge vmbr0" in nic.uses


def test_console(built):
    model = assemble(built.capture())
    screens = [function for function in built.machine.functions if function.boot_vga]
    assert model.function(model.console.boot_vga).ids == "{:04x}:{:04x}".format(*screens[0].part.ids)
    assert model.console.has_bmc is built.machine.firmware.bmc


def test_mapping_of_the_epyc_is_stale_in_its_group_numbers_alone(epyc):
    model = assemble(epyc.capture())
    (mapping,) = model.proxmox.mappings
    assert mapping.id == "rtx6000"
    assert len(mapping.entries) == 8
    assert not mapping.damaged
    for entry in mapping.entries:
        function = model.function(entry.path)
        assert entry.id == function.ids
        assert entry.subsystem_id == function.subsystem_ids
        assert entry.node == "pve1"
        assert entry.iommugroup != function.iommu_group


def test_virtual_machine(epyc):
    model = assemble(epyc.capture())
    (vm,) = model.proxmox.vms
    assert vm.vmid == 100
    assert [h.mapping for h in vm.hostpci] == ["rtx6000"] * 8
    assert vm.config["machine"] == "q35"


def test_nothing_of_the_hardware_is_unknown(built):
    model = assemble(built.capture())
    unknown = [
        (function.bdf, name, str(value))
        for function in model.pci
        for name, value in function.config
        if isinstance(value, Unknown)
    ]
    assert unknown == []
