"""From a capture to the host model: what is there, what is absent, what is not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from provision.capture.model import Capture, Manifest
from provision.evidence import Unknown
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.pci.grouping import compare_present, predict_groups, present_options
from provision.pci.identity import identity

Make = Callable[..., Any]
EMPTY = Capture(manifest=Manifest(target="root@test", created="2026-01-01T00:00:00Z"), items=(), blobs={})


@pytest.fixture
def model(server: Make) -> HostModel:
    return assemble(server(2).capture())


class TestServer:
    def test_functions_are_sorted_and_complete(self, model: HostModel) -> None:
        assert [fn.bdf for fn in model.pci] == sorted(fn.bdf for fn in model.pci)
        assert len(model.pci) == 16

    def test_a_gpu(self, model: HostModel) -> None:
        gpu = model.gpus()[0]
        assert (gpu.bdf, gpu.ids, gpu.parent, gpu.root) == ("0000:11:00.0", "10de:2bb5", "0000:10:01.1", "pci0000:10")
        assert (gpu.driver, gpu.driver_override, gpu.iommu_group, gpu.numa_node) == ("vfio-pci", None, 11, 0)
        assert gpu.reset_methods == ("flr", "bus")
        assert gpu.boot_vga is None
        assert [(bar.index, bar.size) for bar in gpu.bars or ()] == [(0, 64 << 20), (1, 128 << 30), (3, 32 << 20)]
        assert gpu.link is not None
        assert not isinstance(gpu.link, Unknown)
        assert (gpu.link.current_gen, gpu.link.max_gen, gpu.link.max_width) == (1, 5, 16)

    def test_identity_does_not_hold_bus_numbers(self, model: HostModel) -> None:
        found = identity(model.gpus()[1], model.pci)
        assert not isinstance(found, Unknown)
        assert found.path == "\\_SB_.S0D2/01.1/00.0"

    def test_computed_groups_equal_those_of_sysfs(self, model: HostModel) -> None:
        assert compare_present(model).result == "equal"
        options = present_options(model)
        assert not isinstance(options, Unknown)
        assert predict_groups(model.pci, options) == tuple(group.members for group in model.iommu.groups)

    def test_kernel(self, model: HostModel) -> None:
        kernel = model.kernel
        assert kernel.running_cmdline == "BOOT_IMAGE=/boot/vmlinuz-6.14.8-2-pve root=/dev/mapper/pve-root ro quiet"
        assert (kernel.cpu_vendor, kernel.phys_bits, kernel.memory_bytes) == ("AuthenticAMD", 52, 1056784896 << 10)
        assert (kernel.numa_nodes, kernel.numa_cpus) == ((0, 1), {0: "0-31", 1: "32-63"})
        assert kernel.modules == ("vfio_pci", "nvme")

    def test_iommu(self, model: HostModel) -> None:
        assert (model.iommu.units, model.iommu.firmware_table) == (("ivhd0", "ivhd1"), "IVRS")
        assert model.iommu.groups[6].members == ("0000:01:00.0", "0000:02:00.0")
        assert model.iommu.groups[6].type == "identity"

    def test_the_least_width_of_the_iommu(self, server: Make) -> None:
        builder = server(2)

        def bits() -> object:
            return assemble(builder.capture()).iommu.address_bits

        assert isinstance(bits(), Unknown)
        table = bytearray(40)
        table[36:40] = (48 << 15 | 52 << 8 | 1).to_bytes(4, "little")
        builder.files["/sys/firmware/acpi/tables/IVRS"] = bytes(table)
        assert bits() == 48
        builder.files["/sys/firmware/acpi/tables/IVRS"] = bytes(36)
        assert isinstance(bits(), Unknown)
        builder.dirs["/sys/class/iommu"] = ("dmar0", "dmar1")
        builder.files["/sys/class/iommu/dmar0/intel-iommu/cap"] = b"8d2078c106f0466\n"
        assert isinstance(bits(), Unknown)
        builder.files["/sys/class/iommu/dmar1/intel-iommu/cap"] = b"8d2078c10660466\n"
        assert bits() == 39
        builder.files["/sys/class/iommu/dmar1/intel-iommu/cap"] = b"?\n"
        assert isinstance(bits(), Unknown)
        builder.dirs["/sys/class/iommu"] = ()
        assert isinstance(bits(), Unknown)

    def test_boot(self, model: HostModel) -> None:
        assert (model.boot.kind, model.boot.cmdline_file) == ("grub", "/etc/default/grub")
        assert (model.boot.firmware, model.boot.secure_boot) == ("efi", False)

    def test_console(self, model: HostModel) -> None:
        assert (model.console.has_bmc, model.console.boot_vga, model.console.serial) == (True, "0000:02:00.0", False)

    def test_it_survives_json(self, model: HostModel) -> None:
        assert HostModel.model_validate_json(model.model_dump_json()) == model

    def test_files(self, model: HostModel) -> None:
        assert model.files["/etc/default/grub"].content == 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'
        assert model.files["/etc/kernel/cmdline"].content is None
        assert isinstance(model.files["/etc/modprobe.d/*"].content, Unknown)
        assert "/etc/default/grub.d/*" not in model.files


class TestPlaces:
    def test_a_function_whose_link_is_missing_has_no_known_place(self, server: Make) -> None:
        builder = server(2)
        del builder.links["/sys/bus/pci/devices/0000:11:00.0"]
        model = assemble(builder.capture())
        gpu = model.function("0000:11:00.0")
        assert gpu is not None
        assert gpu.root == ""
        assert compare_present(model).result == "unknown"
        assert isinstance(identity(gpu, model.pci), Unknown)

    def test_a_domain_behind_vmd(self, builder: Any, fn: Make) -> None:
        base = "/sys/bus/pci/devices/10000:e1:00.0"
        path = "/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0"
        builder.links[base] = f"../../..{path}"
        function = assemble(builder.capture()).pci[0]
        assert (function.root, function.parent, function.dma_proxy) == ("pci10000:e0", "10000:e0:06.0", "0000:00:0e.0")

    def test_ids_from_modalias_where_the_files_are_missing(self, server: Make) -> None:
        builder = server(2)
        for name in ("vendor", "device", "class"):
            del builder.files[f"/sys/bus/pci/devices/0000:11:00.0/{name}"]
        gpu = assemble(builder.capture()).function("0000:11:00.0")
        assert gpu is not None
        assert (gpu.ids, gpu.class_code) == ("10de:2bb5", 0x030200)

    def test_ids_from_configuration_space(self, server: Make) -> None:
        builder = server(2)
        for name in ("vendor", "device", "class", "modalias"):
            del builder.files[f"/sys/bus/pci/devices/0000:11:00.0/{name}"]
        gpu = assemble(builder.capture()).function("0000:11:00.0")
        assert gpu is not None
        assert (gpu.ids, gpu.class_code) == ("10de:2bb5", 0x030200)

    @pytest.mark.parametrize(("folder", "expected"), [("mdev_supported_types", True), ("nvidia", True), ("", False)])
    def test_mediated_devices(self, server: Make, folder: str, expected: bool) -> None:
        builder = server(1)
        base = "/sys/bus/pci/devices/0000:11:00.0"
        builder.absent.update({("dir", f"{base}/mdev_supported_types"), ("dir", f"{base}/nvidia")})
        if folder:
            builder.absent.discard(("dir", f"{base}/{folder}"))
            builder.dirs[f"{base}/{folder}"] = ("nvidia-1",)
        gpu = assemble(builder.capture()).function("0000:11:00.0")
        assert gpu is not None
        assert gpu.mediated is expected

    def test_slots(self, builder: Any, root: Make, fn: Make) -> None:
        below = [fn("00.0", "10de:2bb5", 0x030200, "endpoint", slot="5"), fn("00.1", "10de:22e8", 0x040300, "endpoint")]
        port = fn("01.0", "8086:352a", 0x060400, "root-port", acs=0x1D, below=below)
        builder.add_root(root(0x16, "\\_SB_.PC02", 0, [port]))
        model = assemble(builder.capture())
        assert [f.slot_name for f in model.pci] == [None, "5", "5"]


class TestNonRoot:
    def test_acs_is_unknown_and_so_are_the_groups_of_tomorrow(self, server: Make) -> None:
        builder = server(2)
        for key in list(builder.files):
            if key.endswith("/config"):
                builder.files[key] = builder.files[key][:64]
        model = assemble(builder.capture(euid=1000))
        for fn in model.pci:
            assert not isinstance(fn.config, Unknown)
            assert isinstance(fn.config.acs, Unknown)
        assert compare_present(model).result == "unknown"


class TestDisks:
    def test_uses_are_followed_to_the_disk(self, model: HostModel) -> None:
        assert not isinstance(model.disks, Unknown)
        (disk,) = model.disks
        assert (disk.name, disk.bdf) == ("nvme0n1", "0000:03:00.0")
        assert disk.uses == ("/", "/boot/efi", "swap", "lvm pve")

    def test_zfs_pools_and_esps(self, server: Make) -> None:
        builder = server(1)
        builder.files["/proc/mounts"] = b"rpool/ROOT/pve-1 / zfs rw 0 0\n"
        builder.files["/proc/swaps"] = b"Filename Type\n"
        builder.absent.discard(("command", "zpool status -P -L"))
        builder.absent.discard(("file", "/etc/kernel/proxmox-boot-uuids"))
        builder.commands["zpool status -P -L"] = (
            "  pool: rpool\n state: ONLINE\nconfig:\n\n\tNAME STATE READ\n\trpool ONLINE 0\n"
            "\t  mirror-0 ONLINE 0\n\t    /dev/nvme0n1p3 ONLINE 0\n\t    /dev/sda3 ONLINE 0\n"
        )
        builder.files["/etc/kernel/proxmox-boot-uuids"] = b"6D31-87F4\nDEAD-BEEF\n"
        builder.links["/dev/disk/by-uuid/6D31-87F4"] = "../../nvme0n1p2"
        builder.links["/sys/block/sda"] = "../devices/pci0000:00/0000:00:11.5/ata1/host0/target0:0:0/0:0:0:0/block/sda"
        builder.dirs["/sys/block/sda/slaves"] = ()
        disks = assemble(builder.capture()).disks
        assert not isinstance(disks, Unknown)
        assert {disk.name: disk.uses for disk in disks} == {
            "nvme0n1": ("ESP 6D31-87F4", "lvm pve", "zfs pool rpool"),
            "sda": ("zfs pool rpool",),
        }
        assert disks[1].bdf == "0000:00:11.5"

    def test_md_and_lv_paths(self, server: Make) -> None:
        builder = server(1)
        builder.files["/proc/mounts"] = b"/dev/md0p1 /boot ext4 rw 0 0\n/dev/my-vg/root / ext4 rw 0 0\n"
        builder.files["/sys/block/dm-1/dm/name"] = b"my--vg-root\n"
        builder.links["/sys/block/md0"] = "../devices/virtual/block/md0"
        builder.dirs["/sys/block/md0/slaves"] = ("nvme0n1p1",)
        disks = assemble(builder.capture()).disks
        assert not isinstance(disks, Unknown)
        assert disks[0].uses == ("/boot", "/", "swap", "lvm pve", "md array md0")

    def test_nvme_with_multipath(self, server: Make) -> None:
        builder = server(1)
        builder.links["/sys/block/nvme0n1"] = "../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
        disks = assemble(builder.capture()).disks
        assert not isinstance(disks, Unknown)
        assert isinstance(disks[0].bdf, Unknown)
        path = "../devices/pci0000:00/0000:00:02.1/0000:03:00.0/nvme/nvme0/nvme0c0n1"
        builder.links["/sys/block/nvme0c0n1"] = path
        disks = assemble(builder.capture()).disks
        assert not isinstance(disks, Unknown)
        assert {disk.name: (disk.bdf, disk.uses[0]) for disk in disks} == {
            "nvme0c0n1": ("0000:03:00.0", "/"),
            "nvme0n1": (None, "/"),
        }

    @pytest.mark.parametrize(
        ("kind", "key"),
        [
            ("files", "/proc/mounts"),
            ("files", "/proc/swaps"),
            ("commands", "pvs -o pv_name,vg_name --reportformat json"),
            ("dirs", "/sys/block/dm-1/slaves"),
            ("links", "/sys/block/nvme0n1"),
            ("links", "/dev/mapper/pve-root"),
        ],
    )
    def test_without_a_source_of_uses_the_disks_are_unknown(self, server: Make, kind: str, key: str) -> None:
        builder = server(1)
        del getattr(builder, kind)[key]
        if key == "/dev/mapper/pve-root":
            del builder.files["/sys/block/dm-1/dm/name"]
        assert isinstance(assemble(builder.capture()).disks, Unknown)

    def test_zfs_mounts_without_an_answer_of_zpool_are_unknown(self, server: Make) -> None:
        builder = server(1)
        builder.files["/proc/mounts"] += b"rpool /rpool zfs rw 0 0\n"
        assert isinstance(assemble(builder.capture()).disks, Unknown)


class TestNetwork:
    def uses(self, model: HostModel) -> dict[str, tuple[str, ...]]:
        assert not isinstance(model.interfaces, Unknown)
        return {interface.name: interface.uses for interface in model.interfaces}

    def test_a_bridge_hands_its_uses_down(self, model: HostModel) -> None:
        uses = self.uses(model)
        assert uses["vmbr0"] == ("default route", "network 10.0.0.0/24", "this connection")
        assert uses["eno1"] == (*uses["vmbr0"], "bridge vmbr0")
        assert uses["lo"] == ()

    def test_the_function_behind_an_interface(self, model: HostModel) -> None:
        assert not isinstance(model.interfaces, Unknown)
        assert {i.name: i.bdf for i in model.interfaces} == {"eno1": "0000:04:00.0", "lo": None, "vmbr0": None}

    def test_bond_and_vlan(self, server: Make) -> None:
        builder = server(1)
        for name in ("eno2", "bond0", "bond0.20"):
            builder.links[f"/sys/class/net/{name}"] = f"../../devices/virtual/net/{name}"
            builder.absent.add(("dir", f"/sys/class/net/{name}/brif"))
            builder.absent.add(("link", f"/sys/class/net/{name}/master"))
            builder.absent.add(("file", f"/sys/class/net/{name}/bonding/slaves"))
        builder.absent.discard(("file", "/sys/class/net/bond0/bonding/slaves"))
        builder.files["/sys/class/net/bond0/bonding/slaves"] = b"eno2\n"
        builder.files["/proc/net/route"] += b"bond0.20\t0000140A\t0\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        builder.absent.discard(("file", "/etc/pve/corosync.conf"))
        builder.files["/etc/pve/corosync.conf"] = b"node {\n  name: pve1\n  ring0_addr: 10.20.0.11\n}\n"
        uses = self.uses(assemble(builder.capture()))
        assert uses["bond0.20"] == ("network 10.20.0.0/24", "corosync")
        assert uses["eno2"] == ("network 10.20.0.0/24", "corosync", "bond0")

    def test_ipv6(self, server: Make) -> None:
        builder = server(1)
        nothing = "0" * 32
        builder.files["/proc/net/ipv6_route"] = (
            f"20010db8{'0' * 24} 40 {nothing} 00 {nothing} 00000100 00000001 00000000 00000001    vmbr0\n"
            f"{nothing} 00 {nothing} 00 {nothing} ffffffff 00000001 00000000 00200200       lo\n"
        ).encode()
        builder.commands["ssh-connection"] = "2001:db8::9 1 2001:db8::11 22"
        uses = self.uses(assemble(builder.capture()))
        assert "network 2001:db8::/64" in uses["vmbr0"]
        assert "this connection" in uses["vmbr0"]

    @pytest.mark.parametrize("peer", ["127.0.0.1 1 127.0.0.1 22", "::1 1 ::1 22", "nonsense", ""])
    def test_a_connection_over_loopback_uses_no_interface(self, server: Make, peer: str) -> None:
        builder = server(1)
        builder.commands["ssh-connection"] = peer
        uses = self.uses(assemble(builder.capture()))
        assert not any("this connection" in found for found in uses.values())

    @pytest.mark.parametrize(("kind", "key"), [("files", "/proc/net/route"), ("dirs", "/sys/class/net/vmbr0/brif")])
    def test_without_routes_or_layers_the_interfaces_are_unknown(self, server: Make, kind: str, key: str) -> None:
        builder = server(1)
        del getattr(builder, kind)[key]
        assert isinstance(assemble(builder.capture()).interfaces, Unknown)


class TestProxmox:
    def test_vms(self, server: Make) -> None:
        builder = server(2)
        folder = "/etc/pve/nodes/pve1/qemu-server"
        builder.files[f"{folder}/100.conf"] = b"name: llm\nhostpci0: mapping=rtx6000,pcie=1\nlock: backup\n"
        builder.files[f"{folder}/101.conf"] = b"name: other\n"
        builder.files["/etc/pve/nodes/pve2/qemu-server/102.conf"] = b"name: far\n"
        builder.files["/run/qemu-server/100.pid"] = b"1234\n"
        builder.files["/etc/pve/mapping/pci.cfg"] = (
            b"rtx6000\n\tmap id=10de:2bb5,iommugroup=11,node=pve1,path=0000:11:00.0,subsystem-id=10de:204e\n"
        )
        model = assemble(builder.capture())
        vms = model.proxmox.vms
        assert not isinstance(vms, Unknown)
        assert [(vm.vmid, vm.node, vm.status if isinstance(vm.status, str) else "?") for vm in vms] == [
            (100, "pve1", "running"), (101, "pve1", "stopped"), (102, "pve2", "?"),
        ]  # fmt: skip
        assert (vms[0].name, vms[0].lock, vms[0].hostpci[0].mapping) == ("llm", "backup", "rtx6000")
        mappings = model.proxmox.mappings
        assert not isinstance(mappings, Unknown)
        assert [mapping.id for mapping in mappings] == ["rtx6000"]

    def test_version_node_and_quorum(self, model: HostModel) -> None:
        assert (model.proxmox.version, model.proxmox.node, model.proxmox.quorate) == ("9.0.3", "pve1", True)

    @pytest.mark.parametrize(("quorate", "expected"), [(1, True), (0, False)])
    def test_quorum_of_a_cluster(self, server: Make, quorate: int, expected: bool) -> None:
        builder = server(1)
        members = {"nodename": "pve1", "cluster": {"name": "c", "quorate": quorate}}
        builder.files["/etc/pve/.members"] = json.dumps(members).encode()
        assert assemble(builder.capture()).proxmox.quorate is expected

    def test_no_proxmox(self, server: Make) -> None:
        builder = server(1)
        del builder.commands["pveversion"]
        builder.absent.add(("command", "pveversion"))
        assert assemble(builder.capture()).proxmox.version is None

    def test_a_config_that_root_alone_may_read(self, server: Make) -> None:
        builder = server(1)
        path = "/etc/pve/nodes/pve1/qemu-server/100.conf"
        builder.files[path] = b""
        builder.denied.add(("file", path))
        vms = assemble(builder.capture()).proxmox.vms
        assert not isinstance(vms, Unknown)
        assert isinstance(vms[0].config_text, Unknown)


class TestSecureBoot:
    KEY = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

    @pytest.mark.parametrize(("value", "expected"), [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\x00", False)])
    def test_variable(self, server: Make, value: bytes, expected: bool) -> None:
        builder = server(1)
        builder.files[self.KEY] = value
        assert assemble(builder.capture()).boot.secure_boot is expected

    def test_a_damaged_variable_is_unknown(self, server: Make) -> None:
        builder = server(1)
        builder.files[self.KEY] = b"\x06"
        assert isinstance(assemble(builder.capture()).boot.secure_boot, Unknown)

    def test_bios(self, server: Make) -> None:
        builder = server(1)
        builder.dirs["/sys/firmware"] = ("acpi",)
        boot = assemble(builder.capture()).boot
        assert (boot.firmware, boot.secure_boot) == ("bios", False)


class TestNothing:
    def test_an_empty_capture_knows_nothing(self) -> None:
        model = assemble(EMPTY)
        assert model.pci == ()
        for value in (
            model.hostname, model.machine_id, model.kernel.running_cmdline, model.kernel.cpu_vendor, model.iommu.units,
            model.iommu.firmware_table, model.disks, model.interfaces, model.console.has_bmc, model.console.serial,
            model.proxmox.version, model.proxmox.quorate, model.proxmox.mappings, model.proxmox.vms,
            model.boot.firmware,
        ):  # fmt: skip
            assert isinstance(value, Unknown)
        assert compare_present(model).result == "unknown"
        assert all(isinstance(state.content, Unknown) for state in model.files.values())


def test_removing_any_one_item_keeps_the_guards_facts_or_makes_them_unknown(server: Make) -> None:
    """No fact that goes missing may make a device look idle, or a group smaller."""
    whole = server(1).capture()
    full = assemble(whole)
    assert not isinstance(full.disks, Unknown)
    assert not isinstance(full.interfaces, Unknown)
    wanted_disks = {(disk.name, disk.bdf, disk.uses) for disk in full.disks}
    wanted_nets = {(net.name, net.bdf, net.uses) for net in full.interfaces}
    for item in whole.items:
        if item.state != "read" or item.key in ("ssh-connection", "/sys/class/net/eno1", "/sys/class/net/vmbr0"):
            continue
        less = Capture(
            manifest=whole.manifest, items=tuple(other for other in whole.items if other != item), blobs=whole.blobs
        )
        model = assemble(less)
        if not isinstance(model.disks, Unknown):
            assert {(d.name, d.bdf, d.uses) for d in model.disks} >= wanted_disks, item.key
        if not isinstance(model.interfaces, Unknown):
            known = {(n.name, n.bdf, n.uses) for n in model.interfaces if not isinstance(n.bdf, Unknown)}
            assert known >= wanted_nets - {("lo", None, ())}, item.key
        assert compare_present(model).result in ("equal", "unknown", "not-reproduced"), item.key
