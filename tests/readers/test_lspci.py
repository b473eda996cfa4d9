"""Every form of lspci gives the facts that it prints, and says of the others that they are not known."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.model import AcsState, Bar, ConfigSpace, Link, PciFunction
from provision.readers.read import Reading, read

Functions = Callable[[str], dict[str, PciFunction]]
Text = Callable[[str], str]

GPU, PORT = "0000:01:00.0", "0000:00:01.0"
GIB = 1 << 30


def config(fn: PciFunction) -> ConfigSpace:
    assert isinstance(fn.config, ConfigSpace)
    return fn.config


def test_everything_as_root(text: Text, functions: Functions) -> None:
    found = functions(text("lspci-Dnnvvvx.txt"))
    gpu = found[GPU]
    assert (gpu.ids, gpu.class_code, gpu.revision, gpu.subsystem_ids) == ("10de:2b85", 0x030000, 0xA1, "10de:2057")
    assert (gpu.parent, gpu.root, gpu.iommu_group, gpu.driver) == (PORT, "pci0000:00", 6, "nouveau")
    assert isinstance(gpu.bars, tuple)
    assert Bar(index=1, start=0x100000000000, size=32 * GIB, is_64bit=True, is_prefetchable=True) in gpu.bars
    assert config(gpu).has_flr is True
    assert config(gpu).rebar is True
    assert config(gpu).port_type == "legacy-endpoint"
    port = config(found[PORT])
    assert port.acs == AcsState(offset=0x220, capability=0x1F, control=0x1D)
    assert (port.secondary_bus, port.subordinate_bus, port.port_type) == (1, 1, "root-port")
    assert port.memory_window == (0x84000000, 0x880FFFFF)
    assert isinstance(found[PORT].link, Link)


def test_the_dump_of_64_bytes_adds_the_multifunction_bit(text: Text, functions: Functions) -> None:
    assert config(functions(text("lspci-Dnnvvvx.txt"))[GPU]).is_multifunction is True
    assert isinstance(config(functions(text("lspci-vvv.txt"))[GPU]).is_multifunction, Unknown)


def test_without_root_nothing_is_known_of_capabilities(text: Text, functions: Functions) -> None:
    for fn in functions(text("lspci-nnvvv-user.txt")).values():
        if fn.class_code >> 8 != 0x0604:
            continue
        space = config(fn)
        for fact in (space.acs, space.dsn, space.port_type, space.has_flr, space.rebar, space.link, space.clique):
            assert isinstance(fact, Unknown)
            assert "access denied" in fact.unknown
            assert "as root" in fact.supply
        assert isinstance(space.secondary_bus, int)
    assert functions(text("lspci-nnvvv-user.txt"))[GPU].parent == PORT


def test_names_alone(text: Text, functions: Functions) -> None:
    found = functions(text("lspci.txt"))
    gpu = found[GPU]
    assert (gpu.vendor, gpu.device, gpu.class_code) == (0x10DE, 0xFFFF, 0x030000)
    assert gpu.is_nvidia_gpu
    assert gpu.description == "NVIDIA Corporation GB202 [GeForce RTX 5090]"
    assert gpu.revision == 0xA1
    for fact in (gpu.driver, gpu.iommu_group, gpu.config, gpu.bars, gpu.numa_node, gpu.subsystem_ids, gpu.boot_vga):
        assert isinstance(fact, Unknown)
        assert fact.supply
    assert gpu.parent == "?"
    assert gpu.root == ""
    assert found[PORT].parent is None


def test_a_device_without_a_name_is_known_by_its_id(functions: Functions) -> None:
    fn = functions(
        "01:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)\n\tSubsystem: Intel Corporation Device 1234"
    )
    assert fn[GPU].ids == "10de:2bb5"
    assert fn[GPU].subsystem_ids == "8086:1234"


@pytest.mark.parametrize("name", ["lspci-nn.txt", "lspci-n.txt", "lspci-PP.txt"])
def test_ids(text: Text, functions: Functions, name: str) -> None:
    found = functions(text(name))
    assert len(found) == 11
    assert found[GPU].ids == "10de:2b85"
    assert found["0000:03:00.0"].ids == "8086:125c"
    assert found[GPU].class_code >> 8 == 0x0300
    assert isinstance(found[GPU].iommu_group, Unknown)


def test_paths_give_the_bridges_above(text: Text, functions: Functions) -> None:
    found = functions(text("lspci-PP.txt"))
    assert {bdf: fn.parent for bdf, fn in found.items() if fn.parent} == {
        "0000:01:00.0": PORT,
        "0000:01:00.1": PORT,
        "0000:02:00.0": "0000:00:06.0",
        "0000:03:00.0": "0000:00:1c.0",
    }


def test_drivers(text: Text, functions: Functions) -> None:
    found = functions(text("lspci-nnk.txt"))
    assert found["0000:00:14.0"].driver == "xhci_hcd"
    assert found["0000:00:00.0"].driver is None
    assert found["0000:00:14.0"].subsystem_ids == "1043:8882"


def test_one_v_names_capabilities_without_their_registers(text: Text, functions: Functions) -> None:
    found = functions(text("lspci-nnv.txt"))
    port = config(found[PORT])
    assert port.port_type == "root-port"
    assert isinstance(port.acs, Unknown)
    assert "names the ACS capability" in port.acs.unknown
    assert config(found["0000:03:00.0"]).acs is None
    assert found[GPU].iommu_group == 6
    assert isinstance(found[GPU].bars, Unknown)
    assert isinstance(found[GPU].link, Unknown)


STANZA = """00:01.0 PCI bridge: Intel Corporation Device 1234 (rev 01) (prog-if 00 [Normal decode])
\tControl: I/O+ Mem+ BusMaster+
\tStatus: Cap+ 66MHz-
\tNUMA node: 1
\tPhysical Slot: 2-1
\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0
\tMemory behind bridge: None
\tCapabilities: [40] Express (v2) {type}
\t\tDevCap:\tMaxPayload 256 bytes
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed {speed}, Width {width}
\t\tSltCap:\tAttnBtn-
\t\t\tSlot #7, PowerLimit 75W
\tCapabilities: [100 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{rr} CmpltRedir{rr} UpstreamFwd+ EgressCtrl- DirectTrans-
\tCapabilities: [200 v1] Device Serial Number 01-23-45-67-89-ab-cd-ef
"""


def stanza(**words: str) -> str:
    values = {
        "type": "Root Port (Slot+), MSI 00",
        "speed": "2.5GT/s (downgraded)",
        "width": "x8 (downgraded)",
        "rr": "+",
    }
    return STANZA.format(**{**values, **words})


def test_registers_of_a_port(functions: Functions) -> None:
    port = functions(stanza())[PORT]
    space = config(port)
    assert space.acs == AcsState(offset=0x100, capability=0x5F, control=0x1D)
    assert space.dsn == "0123456789abcdef"
    assert space.slot_number == 7
    assert port.link == Link(current_gen=1, current_width=8, max_gen=5, max_width=16)
    assert (port.numa_node, port.slot_name) == (1, "2-1")
    assert (space.secondary_bus, space.subordinate_bus, space.memory_window) == (1, 3, None)
    assert space.sriov_total_vfs is None


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("Upstream Port, MSI 00", "upstream-port"),
        ("Downstream Port (Slot-), IntMsgNum 0", "downstream-port"),
        ("PCI-Express to PCI/PCI-X Bridge, MSI 00", "pcie-to-pci-bridge"),
        ("PCI/PCI-X to PCI-Express Bridge, MSI 00", "pci-to-pcie-bridge"),
        ("Root Complex Integrated Endpoint, MSI 00", "integrated-endpoint"),
        ("Root Complex Event Collector, MSI 00", "event-collector"),
        ("Endpoint, MSI 00", "endpoint"),
        ("Legacy Endpoint, MSI 00", "legacy-endpoint"),
    ],
)
def test_port_types(functions: Functions, type_: str, kind: str) -> None:
    assert config(functions(stanza(type=type_))[PORT]).port_type == kind


def test_a_port_type_that_lspci_does_not_name(functions: Functions) -> None:
    assert isinstance(config(functions(stanza(type="Unknown type 12, MSI 00"))[PORT]).port_type, Unknown)


def test_redirect_off(functions: Functions) -> None:
    acs = config(functions(stanza(rr="-"))[PORT]).acs
    assert isinstance(acs, AcsState)
    assert acs.control == 0x11


def test_a_link_that_is_down_has_no_width(functions: Functions) -> None:
    link = functions(stanza(width="x0 (downgraded)"))[PORT].link
    assert isinstance(link, Link)
    assert isinstance(link.current_width, Unknown)
    assert link.max_width == 16


def test_ports_whose_acs_lspci_misreads(functions: Functions) -> None:
    """The control of these Intel ports lies where lspci does not look: all off proves nothing."""
    off = re.sub(r"(?m)^\t\tACSCtl:.*$", lambda line: line[0].replace("+", "-"), stanza())
    assert isinstance(config(functions(off.replace("Device 1234", "Device a110"))[PORT]).acs, Unknown)
    assert isinstance(config(functions(off.replace("Device 1234", "Root Port #1"))[PORT]).acs, Unknown)
    known = config(functions(off)[PORT]).acs
    assert isinstance(known, AcsState)
    assert known.control == 0


def test_no_extended_capability_anywhere_is_no_proof(functions: Functions) -> None:
    """A kernel that cannot read extended space looks the same as devices that have none."""
    plain = stanza().split("\tCapabilities: [100")[0]
    assert isinstance(config(functions(plain)[PORT]).acs, Unknown)
    both = plain + "\n" + stanza().replace("00:01.0", "00:02.0").replace("secondary=01", "secondary=04")
    assert config(functions(both)[PORT]).acs is None


def test_a_device_that_is_asleep(functions: Functions) -> None:
    fn = functions(
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation X [10de:2b85] (rev ff) (prog-if ff)\n"
        "\t!!! Unknown header type 7f\n\tKernel driver in use: vfio-pci\n"
    )[GPU]
    assert fn.driver == "vfio-pci"
    assert isinstance(fn.config, Unknown) or isinstance(fn.config.acs, Unknown)


def test_a_device_that_is_asleep_among_verbose_ones(functions: Functions) -> None:
    text = stanza() + "\n01:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev ff) (prog-if ff)\n\tControl: I/O-\n"
    fact = config(functions(text)[GPU]).dsn
    assert isinstance(fact, Unknown)
    assert "all ones" in fact.unknown


@pytest.mark.parametrize("broken", ["<chain looped>", "<chain broken>"])
def test_a_broken_list_of_capabilities(functions: Functions, broken: str) -> None:
    text = stanza() + f"\tCapabilities: [300] {broken}\n"
    assert isinstance(config(functions(text)[PORT]).rebar, Unknown)


def test_regions(functions: Functions) -> None:
    fn = functions(
        "01:00.0 VGA compatible controller: NVIDIA Corporation X (rev a1) (prog-if 00 [VGA controller])\n"
        "\tControl: I/O+\n"
        "\tRegion 0: Memory at f6000000 (32-bit, non-prefetchable) [size=16M]\n"
        "\tRegion 1: Memory at <unassigned> (64-bit, prefetchable) [disabled]\n"
        "\tRegion 3: Memory at 4000000000 (64-bit, prefetchable) [disabled] [size=32G]\n"
        "\tRegion 5: I/O ports at e000 [size=128]\n"
        "\tExpansion ROM at f7000000 [virtual] [disabled] [size=512K]\n"
        "\tCapabilities: [250 v1] Single Root I/O Virtualization (SR-IOV)\n"
        "\t\tInitial VFs: 48, Total VFs: 48, Number of VFs: 0\n"
        "\t\tRegion 2: Memory at 0000078000000000 (64-bit, prefetchable)\n"
    )[GPU]
    assert isinstance(fn.bars, tuple)
    assert [(bar.index, bar.start, bar.size) for bar in fn.bars] == [
        (0, 0xF6000000, 16 << 20),
        (3, 0x4000000000, 32 * GIB),
        (5, 0xE000, 128),
        (6, 0xF7000000, 512 << 10),
    ]
    assert [bar.is_io for bar in fn.bars] == [False, False, True, False]
    assert [bar.is_prefetchable for bar in fn.bars] == [False, True, False, False]
    assert config(fn).sriov_total_vfs == 48
    assert isinstance(fn.sriov_total_vfs, Unknown)


def test_a_region_without_a_size(functions: Functions) -> None:
    fn = functions(
        "01:00.0 VGA compatible controller: X (rev a1)\n\tControl: I/O+\n\tRegion 0: Memory at f6000000 (32-bit)\n"
    )
    assert isinstance(fn[GPU].bars, Unknown)


def test_advanced_features_give_a_reset(functions: Functions) -> None:
    text = (
        "00:1d.0 USB controller: Intel Corporation X (rev 05) (prog-if 20 [EHCI])\n\tControl: I/O-\n\tStatus: Cap+\n"
        "\tCapabilities: [98] PCI Advanced Features\n\t\tAFCap: TP+ FLR{}\n\t\tAFCtrl: FLR-\n"
    )
    assert config(functions(text.format("+"))["0000:00:1d.0"]).has_flr is True
    assert config(functions(text.format("-"))["0000:00:1d.0"]).has_flr is False
    short = text.partition("\t\tAFCap")[0]
    assert isinstance(config(functions(short)["0000:00:1d.0"]).has_flr, Unknown)


def test_a_conventional_device_without_capabilities(functions: Functions) -> None:
    space = config(
        functions("00:1f.0 ISA bridge: Intel Corporation X (rev 05)\n\tControl: I/O-\n\tStatus: Cap- 66MHz-\n")[
            "0000:00:1f.0"
        ]
    )
    assert (space.acs, space.port_type, space.has_flr, space.dsn) == (None, None, False, None)


def test_a_class_that_lspci_cannot_name(functions: Functions) -> None:
    assert (
        functions("00:00.3 Generic system peripheral [0807]: Advanced Micro Devices, Inc. [AMD] Device 153c")[
            "0000:00:00.3"
        ].class_code
        == 0x080700
    )


def test_domains(functions: Functions) -> None:
    assert list(functions("10000:e1:00.0 PCI bridge [0604]: Intel Corporation X [8086:1234] (rev 01)")) == [
        "10000:e1:00.0"
    ]


def test_memory_that_the_kernel_ignored() -> None:
    text = (
        "41:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)\n"
        "\tMemory at e0000000 (32-bit, non-prefetchable) [size=64M]\n"
        "\tMemory at <ignored> (64-bit, prefetchable)\n"
        "\tMemory at <ignored> (64-bit, prefetchable)\n"
    )
    reading = read(text)
    assert isinstance(reading, Reading)
    (lost,) = reading.listings[0].unplaced
    assert (lost.bdf, lost.line, lost.count) == ("0000:41:00.0", 3, 2)
    whole = read(text.replace("<ignored>", "3800000000"))
    assert isinstance(whole, Reading)
    assert whole.listings[0].unplaced == ()
