"""Configuration spaces: what goes in comes out of the product's decoder, and of lspci."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess

import pytest

from provision.lab.capabilities import MSIX_PENDING, MSIX_TABLE, MSIX_VECTORS, PASID_WIDTH
from provision.lab.config_space import build
from provision.lab.layout import lay_out
from provision.lab.machine import load_machine, machine_names
from provision.lab.parts import Acs
from provision.lab.variants import rebuilt, with_gpus, without_acs
from provision.pci.config import decode

LAYOUTS = {name: lay_out(load_machine(name)) for name in machine_names()}
EVERY = [
    pytest.param(placed, id=f"{name}-{placed.bdf}") for name, layout in LAYOUTS.items() for placed in layout.functions
]


@pytest.mark.parametrize("placed", EVERY)
def test_round_trip(placed):
    part, function = placed.part, placed.function
    state = function.acs_state
    control = 0x1D & state.capability if state else 0
    raw = build(placed, multifunction=True, acs_control=control, link_gen=1)
    space = decode(raw)
    assert space.length == len(raw) == (4096 if part.port else 256)
    assert space.header_type == int(part.bridge)
    assert space.is_multifunction is True
    assert space.port_type == part.port
    assert space.dsn == function.dsn
    assert space.has_flr is part.flr
    assert space.sriov_total_vfs == (part.sriov.total_vfs if part.sriov else None)
    assert space.rebar is (part.rebar is not None)
    assert space.clique is None
    if state is None:
        assert space.acs is None
    else:
        assert (space.acs.offset, space.acs.capability, space.acs.control) == (
            part.ext["acs"],
            state.capability,
            control,
        )
    if part.bridge:
        assert (space.secondary_bus, space.subordinate_bus) == (placed.secondary, placed.subordinate)
        assert space.prefetch_window == placed.prefetchable
        assert space.memory_window == placed.memory
    if part.link is not None:
        assert (space.link.max_gen, space.link.max_width) == (part.link.gen, part.link.width)
        assert (space.link.current_gen, space.link.current_width) == (1, function.link_width or part.link.width)
        assert space.link_control.has_common_clock
        assert not space.link_control.is_disabled
    else:
        assert space.link_control is None
    _assert_further_capabilities(space, part)


def _assert_further_capabilities(space, part):
    """What the part lists is decoded where it stands; what it does not list is absent."""
    for name in ("ats", "pasid", "aer"):
        state = getattr(space, name)
        assert (state.offset if state else None) == part.ext.get(name), name
    assert (space.msix.offset if space.msix else None) == part.caps.get("msix")
    if space.ats:
        assert (space.ats.is_enabled, space.ats.queue_depth, space.ats.is_page_aligned) == (False, 32, True)
    if space.pasid:
        assert (space.pasid.is_enabled, space.pasid.width) == (False, PASID_WIDTH)
    if space.aer:
        assert (space.aer.uncorrectable, space.aer.correctable) == (0, 0)
        assert space.aer.fatal
    if space.msix:
        assert (space.msix.vectors, space.msix.is_enabled, space.msix.is_masked) == (MSIX_VECTORS, True, False)
        assert (space.msix.table_bar, space.msix.table_offset) == (0, MSIX_TABLE)
        assert (space.msix.pending_bar, space.msix.pending_offset) == (0, MSIX_PENDING)


def test_switch_has_every_capability():
    """So that the round trip above is a test of each."""
    layout = LAYOUTS["switch-4x4"]
    nic = decode(build(layout.by_id("fabric0"), multifunction=False))
    assert all((nic.ats, nic.pasid, nic.aer, nic.msix, nic.link_control))


def test_downstream_ports_have_acs_and_upstream_ports_none():
    ports = [p for p in LAYOUTS["switch-4x4"].functions if p.part.ids == (0x1000, 0xC030)]
    states = {p.part.port: decode(build(p, multifunction=False, acs_control=0x1D)).acs for p in ports}
    assert states["upstream-port"] is None
    assert (states["downstream-port"].capability, states["downstream-port"].control) == (0x5F, 0x1D)
    assert len(ports) == 14


def test_registers_of_the_gpu():
    placed = LAYOUTS["epyc-8x-rtxpro6000"].by_id("gpu0")
    raw = build(placed, multifunction=False)
    assert struct.unpack_from("<HH", raw, 0) == (0x10DE, 0x2BB5)
    assert struct.unpack_from("<HH", raw, 0x2C) == (0x10DE, 0x204E)
    low, high = struct.unpack_from("<II", raw, 0x18)
    assert low & 0xF == 0xC
    assert (high << 32 | low & ~0xF) % (128 << 30) == 0
    chain, offset = [], raw[0x34]
    while offset:
        chain.append(offset)
        offset = raw[offset + 1]
    assert chain == [0x40, 0x48, 0x60, 0x9C, 0xB0]
    extended, offset = [], 0x100
    while offset:
        (head,) = struct.unpack_from("<I", raw, offset)
        extended.append((offset, head & 0xFFFF))
        offset = head >> 20
    assert (0x134, 0x15) in extended
    assert (0x250, 0x10) in extended
    assert extended[-1] == (0x2F4, 0x03)


def test_sriov_registers_hold_the_virtual_functions_bars():
    placed = LAYOUTS["epyc-8x-rtxpro6000"].by_id("gpu3")
    raw = build(placed, multifunction=False)
    starts = {bar.index: bar.start for bar in placed.vf_bars}
    for index, start in starts.items():
        low, high = struct.unpack_from("<II", raw, 0x250 + 0x24 + 4 * index)
        assert high << 32 | low & ~0xF == start


def test_slot_number_of_a_port():
    layout = LAYOUTS["epyc-8x-rtxpro6000"]
    port = layout.at("0000:40:01.1")
    assert decode(build(port, multifunction=True)).slot_number == 3


def test_hidden_acs_is_not_in_the_chain():
    layout = lay_out(without_acs(load_machine("epyc-8x-rtxpro6000")))
    assert decode(build(layout.at("0000:40:01.1"), multifunction=True)).acs is None


def test_capability_of_a_board_of_its_own():
    machine = rebuilt(
        load_machine("epyc-8x-rtxpro6000"),
        lambda f: f.model_copy(update={"acs": Acs(capability=0x1F, firmware=0x03)}) if f.slot == "3" else f,
    )
    space = decode(build(lay_out(machine).at("0000:40:01.1"), multifunction=True, acs_control=0x1D))
    assert (space.acs.capability, space.acs.control) == (0x1F, 0x1D)


@pytest.mark.parametrize("count", [0, 1, 3, 8, 16])
def test_windows_hold_what_stands_below(count):
    for name in ("epyc-8x-rtxpro6000", "switch-4x4"):
        machine = with_gpus(load_machine(name), count)
        layout = lay_out(machine)
        assert layout.full == ()
        assert len(machine.gpus) == count
        _assert_laid_out(layout)


@pytest.mark.parametrize("name", machine_names())
def test_layout(name):
    _assert_laid_out(LAYOUTS[name])


def _assert_laid_out(layout):
    taken = []
    for placed in layout.functions:
        for bar in placed.bars:
            assert bar.start % bar.size == 0
            taken.append((bar.is_io, bar.start, bar.start + bar.size - 1))
            parent = layout.at(str(placed.parent)) if placed.parent else None
            if parent is not None and not bar.is_io:
                first, last = parent.prefetchable if bar.is_64bit and bar.is_prefetchable else parent.memory
                assert first <= bar.start
                assert bar.start + bar.size - 1 <= last
        if placed.secondary is not None:
            assert placed.bdf.bus < placed.secondary <= placed.subordinate
    taken.sort()
    for (io, _, end), (other_io, start, _) in itertools.pairwise(taken):
        assert io != other_io or end < start


@pytest.mark.skipif(shutil.which("lspci") is None, reason="pciutils is not installed")
def test_lspci_reads_our_bytes(tmp_path):
    layout = LAYOUTS["epyc-8x-rtxpro6000"]
    gpu, port = layout.by_id("gpu2"), layout.at("0000:40:01.1")
    nic = LAYOUTS["switch-4x4"].by_id("fabric1")
    dump = tmp_path / "dump"
    dump.write_text(_hexdump(gpu, 0) + _hexdump(port, 0x1D) + _hexdump(nic, 0))
    said = subprocess.run(
        ["lspci", "-F", str(dump), "-vvv", "-nn"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "Express (v2) Legacy Endpoint" in said
    assert "Device Serial Number 7e-d9-61-8d-8d-c5-a0-03" in said
    assert "BAR 2: current size: 128GB" in said
    assert "Express (v2) Root Port (Slot+)" in said
    assert "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-" in said
    assert "Total VFs: 48" in said
    assert "FLReset+" in said
    assert "ATSCap:\tInvalidate Queue Depth: 00" in said
    assert "PASIDCap: Exec- Priv-, Max PASID Width: 14" in said
    assert "MSI-X: Enable+ Count=9 Masked-" in said
    assert "CommClk+" in said
    assert "<chain looped>" not in said


def _hexdump(placed, control):
    raw = build(placed, multifunction=False, acs_control=control)
    rows = [f"{at:02x}: {raw[at : at + 16].hex(' ')}\n" for at in range(0, len(raw), 16)]
    return f"{placed.bdf} 0000: lab\n{''.join(rows)}\n"
