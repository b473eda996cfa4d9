"""Configuration space: what is there, what is not, and what cannot be told."""

from __future__ import annotations

from struct import pack, pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pci import registers as reg
from provision.pci.config import decode
from provision.pci.model import ConfigSpace


def space(
    size: int = reg.EXTENDED_SIZE,
    *,
    port: int | None = 4,
    slot: int | None = None,
    header: int = 0,
    extended: dict[int, bytes] | None = None,
    ids: tuple[int, int] = (0x1022, 0x153E),
) -> bytearray:
    """A space with a PCI Express capability at 0x58 and extended capabilities at the offsets given."""
    data = bytearray(reg.EXTENDED_SIZE)
    pack_into("<HH", data, 0, *ids)
    data[reg.HEADER_TYPE] = header
    if port is not None:
        data[reg.STATUS] = reg.STATUS_CAPABILITIES
        data[reg.CAPABILITY_POINTER] = 0x58
        flags = 2 | port << 4 | (reg.EXP_FLAGS_SLOT if slot is not None else 0)
        pack_into("<BBH", data, 0x58, reg.CAP_PCI_EXPRESS, 0, flags)
        pack_into("<I", data, 0x58 + reg.EXP_LINK_CAP, 5 | 16 << 4)
        pack_into("<H", data, 0x58 + reg.EXP_LINK_STATUS, 1 | 8 << 4)
        pack_into("<I", data, 0x58 + reg.EXP_SLOT_CAP, (slot or 0) << 19)
    for offset, body in (extended or {}).items():
        data[offset : offset + len(body)] = body
    return data[:size]


def cap(cap_id: int, following: int, body: bytes) -> bytes:
    return pack("<I", cap_id | 1 << 16 | following << 20) + body


AMD_ACS = {0x100: cap(0x000B, 0x2A0, b""), 0x2A0: cap(reg.EXT_ACS, 0, pack("<HH", 0x5F, 0x1D))}


class TestAcs:
    def test_present_behind_another_capability(self) -> None:
        acs = decode(bytes(space(extended=AMD_ACS))).acs
        assert acs is not None
        assert not isinstance(acs, Unknown)
        assert (acs.offset, acs.capability, acs.control) == (0x2A0, 0x5F, 0x1D)

    def test_absent_where_the_chain_ends_without_it(self) -> None:
        assert decode(bytes(space(extended={0x100: cap(0x000B, 0, b"")}))).acs is None

    @pytest.mark.parametrize("size", [0, 1, 63, 64, 128, 256, 0x2A4, 4095])
    def test_a_short_space_is_unknown_and_never_absent(self, size: int) -> None:
        assert isinstance(decode(bytes(space(size))).acs, Unknown)

    def test_a_cut_space_still_shows_what_is_in_it(self) -> None:
        acs = decode(bytes(space(0x300, extended=AMD_ACS))).acs
        assert acs is not None
        assert not isinstance(acs, Unknown)

    @pytest.mark.parametrize(
        ("name", "extended"),
        [
            ("loop", {0x100: cap(0x000B, 0x100, b"")}),
            ("longer loop", {0x100: cap(0x000B, 0x200, b""), 0x200: cap(0x0003, 0x100, b"")}),
            ("all ones in extended space", {0x100: b"\xff" * 0xF00}),
            ("all ones in the registers", {0x100: cap(reg.EXT_ACS, 0, b"\xff" * 4)}),
            ("pointer below 0x100", {0x100: cap(0x000B, 0x40, b"")}),
        ],
    )
    def test_a_broken_chain_is_unknown(self, name: str, extended: dict[int, bytes]) -> None:
        assert isinstance(decode(bytes(space(extended=extended))).acs, Unknown), name

    def test_a_capability_before_the_loop_is_known(self) -> None:
        loop = {0x100: cap(reg.EXT_ACS, 0x200, pack("<HH", 0x1D, 0)), 0x200: cap(0x0003, 0x100, b"")}
        acs = decode(bytes(space(extended=loop))).acs
        assert acs is not None
        assert not isinstance(acs, Unknown)
        assert acs.control == 0

    def test_a_sleeping_device_is_unknown_throughout(self) -> None:
        decoded = decode(b"\xff" * 4096)
        for name in ConfigSpace.model_fields:
            if name != "length":
                assert isinstance(getattr(decoded, name), Unknown), name
        assert "asleep" in str(decoded.acs)

    def test_64_bytes_say_how_to_get_the_rest(self) -> None:
        acs = decode(bytes(space(64))).acs
        assert isinstance(acs, Unknown)
        assert "64 bytes" in acs.unknown
        assert "root" in acs.supply

    def test_a_reason_of_the_caller_is_kept(self) -> None:
        acs = decode(bytes(space(64)), reason="permission denied", supply="use sudo").acs
        assert isinstance(acs, Unknown)
        assert (acs.unknown, acs.supply) == ("permission denied", "use sudo")

    def test_sunrise_point_keeps_its_control_at_offset_8(self) -> None:
        body = pack("<II", 0x0F, 0x0D)
        data = space(ids=(0x8086, 0xA110), extended={0x140: b"", 0x100: cap(reg.EXT_ACS, 0, body)})
        acs = decode(bytes(data)).acs
        assert acs is not None
        assert not isinstance(acs, Unknown)
        assert (acs.capability, acs.control) == (0x0F, 0x0D)

    def test_a_conventional_function_has_none(self) -> None:
        decoded = decode(bytes(space(256, port=None)))
        assert decoded.acs is None
        assert decoded.port_type is None
        assert decoded.has_flr is False

    def test_64_bytes_of_a_conventional_function_prove_nothing(self) -> None:
        assert isinstance(decode(bytes(space(64, port=None))).acs, Unknown)


class TestExpress:
    @pytest.mark.parametrize(("code", "name"), sorted(reg.PORT_TYPES.items()))
    def test_port_types(self, code: int, name: str) -> None:
        assert decode(bytes(space(port=code))).port_type == name

    def test_a_reserved_port_type_is_unknown(self) -> None:
        assert isinstance(decode(bytes(space(port=3))).port_type, Unknown)

    def test_slot_number(self) -> None:
        assert decode(bytes(space(slot=7))).slot_number == 7
        assert decode(bytes(space())).slot_number is None
        assert decode(bytes(space(port=0, slot=7))).slot_number is None

    def test_link(self) -> None:
        link = decode(bytes(space())).link
        assert link is not None
        assert not isinstance(link, Unknown)
        assert (link.current_gen, link.current_width, link.max_gen, link.max_width) == (1, 8, 5, 16)

    def test_flr(self) -> None:
        data = space(port=0)
        assert decode(bytes(data)).has_flr is False
        pack_into("<I", data, 0x58 + reg.EXP_DEVICE_CAP, reg.EXP_DEVICE_CAP_FLR)
        assert decode(bytes(data)).has_flr is True

    def test_flr_of_the_advanced_features_capability(self) -> None:
        data = space(256, port=None)
        data[reg.STATUS] = reg.STATUS_CAPABILITIES
        data[reg.CAPABILITY_POINTER] = 0x80
        data[0x80:0x84] = bytes((reg.CAP_ADVANCED_FEATURES, 0, 6, reg.AF_FLR))
        assert decode(bytes(data)).has_flr is True

    def test_serial_number_sriov_and_rebar(self) -> None:
        extended = {
            0x100: cap(reg.EXT_SERIAL_NUMBER, 0x120, pack("<II", 0x89ABCDEF, 0x01234567)),
            0x120: cap(reg.EXT_SRIOV, 0x180, bytes(10) + pack("<H", 16)),
            0x180: cap(reg.EXT_RESIZABLE_BAR, 0, b""),
        }
        decoded = decode(bytes(space(port=0, extended=extended)))
        assert (decoded.dsn, decoded.sriov_total_vfs, decoded.rebar) == ("0123456789abcdef", 16, True)
        bare = decode(bytes(space(port=0)))
        assert (bare.dsn, bare.sriov_total_vfs, bare.rebar) == (None, None, False)


class TestClique:
    def clique(self, tail: bytes, *, port: int | None = 0) -> bytes:
        data = space(256, port=port)
        data[reg.STATUS] = reg.STATUS_CAPABILITIES
        if port is None:
            data[reg.CAPABILITY_POINTER] = 0xD4
        else:
            data[0x59] = 0xD4
        data[0xD4 : 0xD4 + len(tail)] = tail
        return bytes(data)

    @pytest.mark.parametrize("number", [0, 1, 15])
    def test_read(self, number: int) -> None:
        assert decode(self.clique(b"\x09\x00\x08P2P" + bytes((number << 3, 0)))).clique == number

    @pytest.mark.parametrize(
        "tail", [b"\x09\x00\x10P2P\x08\x00", b"\x09\x00\x08XXX\x08\x00", b"\x05\x00\x08P2P\x08\x00"]
    )
    def test_another_vendor_capability_is_none(self, tail: bytes) -> None:
        assert decode(self.clique(tail)).clique is None

    def test_a_looping_list_is_unknown(self) -> None:
        assert isinstance(decode(self.clique(b"\x05\xd4\x00\x00")).clique, Unknown)

    def test_a_pointer_into_the_header_is_unknown(self) -> None:
        assert isinstance(decode(self.clique(b"\x05\x10\x00\x00")).clique, Unknown)

    def test_a_capability_of_all_ones_is_unknown(self) -> None:
        assert isinstance(decode(self.clique(b"\xff\xff\xff\xff")).clique, Unknown)


class TestBridge:
    def test_windows_and_buses(self) -> None:
        data = space(header=0x81)
        data[reg.PRIMARY_BUS : reg.PRIMARY_BUS + 3] = bytes((0x40, 0x41, 0x43))
        pack_into("<HH", data, reg.MEMORY_BASE, 0xB400, 0xB8F0)
        pack_into("<HH", data, reg.PREFETCH_BASE, 0x0001, 0xFFF1)
        pack_into("<II", data, reg.PREFETCH_BASE_UPPER, 0x20, 0x3F)
        decoded = decode(bytes(data))
        assert (decoded.header_type, decoded.is_multifunction) == (1, True)
        assert (decoded.secondary_bus, decoded.subordinate_bus) == (0x41, 0x43)
        assert decoded.memory_window == (0xB4000000, 0xB8FFFFFF)
        assert decoded.prefetch_window == (0x20_0000_0000, 0x3F_FFFF_FFFF)

    def test_a_32_bit_prefetchable_window_ignores_the_upper_registers(self) -> None:
        data = space(header=1)
        pack_into("<HH", data, reg.PREFETCH_BASE, 0xA000, 0xAFF0)
        pack_into("<II", data, reg.PREFETCH_BASE_UPPER, 0x20, 0x3F)
        assert decode(bytes(data)).prefetch_window == (0xA0000000, 0xAFFFFFFF)

    def test_a_closed_window_is_none(self) -> None:
        data = space(header=1)
        pack_into("<HH", data, reg.PREFETCH_BASE, 0xFFF1, 0x0001)
        assert decode(bytes(data)).prefetch_window is None

    def test_registers_that_are_not_there_are_no_window(self) -> None:
        assert decode(bytes(space(header=1))).prefetch_window is None

    def test_a_device_has_none(self) -> None:
        decoded = decode(bytes(space()))
        assert (decoded.secondary_bus, decoded.prefetch_window) == (None, None)


@given(st.binary(max_size=400))
def test_any_short_bytes_give_a_value(data: bytes) -> None:
    decoded = decode(data)
    assert decoded.length == len(data)
    if len(data) < 64:
        assert isinstance(decoded.acs, Unknown)


@given(st.data())
def test_any_damage_gives_a_value(data: st.DataObject) -> None:
    base = space(header=data.draw(st.sampled_from((0, 1, 0x80, 2))), extended=AMD_ACS)
    for _ in range(data.draw(st.integers(0, 8))):
        base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.integers(0, 255))
    decode(bytes(base[: data.draw(st.integers(0, len(base)))]))


@given(st.integers(0, 4095))
def test_cutting_never_turns_a_capability_into_its_absence(length: int) -> None:
    assert decode(bytes(space(length, extended=AMD_ACS))).acs is not None
