"""Link control, ATS, PASID, error status and MSI-X: read where they are, Unknown where they cannot be told."""

from __future__ import annotations

from struct import pack, pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pci import registers as reg
from provision.pci.capability_state import AerState, AtsState, LinkControl, MsixState, PasidState
from provision.pci.config import decode

EXPRESS, MSIX = 0x58, 0xA0
AER, ATS, PASID, ACS, DSN, SRIOV, REBAR = 0x100, 0x150, 0x170, 0x190, 0x1A0, 0x200, 0x280
OPTIONAL = ("acs", "ats", "pasid", "aer", "msix", "dsn", "sriov_total_vfs", "link", "link_control", "clique")
"""Fields for which ``None`` says: looked for in a whole chain, and not there."""


FIELDS = ((ATS, "ats"), (PASID, "pasid"), (ACS, "acs"), (DSN, "dsn"), (SRIOV, "sriov_total_vfs"), (REBAR, "rebar"))


def extended(number: int, body: bytes, following: int = 0) -> bytes:
    return pack("<I", number | 1 << 16 | following << 20) + body


EXTENDED = {
    AER: extended(reg.EXT_AER, pack("<IIIII", 1 << 20 | 1 << 14 | 1 << 30, 0, 0x462030, 1 << 6 | 1 << 13, 0x2000), ATS),
    ATS: extended(reg.EXT_ATS, pack("<HH", 0x20 | 8, 0x8000), PASID),
    PASID: extended(reg.EXT_PASID, pack("<HH", 20 << 8 | 0x2, 0x1), ACS),
    ACS: extended(reg.EXT_ACS, pack("<HH", 0x5F, 0x1D), DSN),
    DSN: extended(reg.EXT_SERIAL_NUMBER, pack("<II", 1, 2), SRIOV),
    SRIOV: extended(reg.EXT_SRIOV, bytes(10) + pack("<H", 16), REBAR),
    REBAR: extended(reg.EXT_RESIZABLE_BAR, bytes(8)),
}


def full(control: int = 0x0042, message: int = 0x8000 | 0x4000 | 8) -> bytearray:
    """An endpoint with every capability that is decoded."""
    data = bytearray(reg.EXTENDED_SIZE)
    pack_into("<HH", data, 0, 0x10DE, 0x2BB5)
    data[reg.STATUS] = reg.STATUS_CAPABILITIES
    data[reg.CAPABILITY_POINTER] = EXPRESS
    pack_into("<BBH", data, EXPRESS, reg.CAP_PCI_EXPRESS, MSIX, 2)
    pack_into("<I", data, EXPRESS + reg.EXP_LINK_CAP, 5 | 16 << 4)
    pack_into("<HH", data, EXPRESS + reg.EXP_LINK_CONTROL, control, 5 | 16 << 4)
    pack_into("<BBHII", data, MSIX, reg.CAP_MSIX, 0xC0, message, 0x00B90002, 0x00BA0004)
    data[0xC0:0xC8] = b"\x09\x00\x08P2P\x18\x00"
    for offset, body in EXTENDED.items():
        data[offset : offset + len(body)] = body
    return data


class TestRead:
    def test_link_control(self) -> None:
        assert decode(bytes(full())).link_control == LinkControl(
            aspm_l0s=False, aspm_l1=True, is_disabled=False, has_common_clock=True
        )
        assert decode(bytes(full(control=0x0011))).link_control == LinkControl(
            aspm_l0s=True, aspm_l1=False, is_disabled=True, has_common_clock=False
        )

    def test_a_function_without_a_link_has_no_link_control(self) -> None:
        data = full()
        pack_into("<I", data, EXPRESS + reg.EXP_LINK_CAP, 0)
        assert decode(bytes(data)).link_control is None

    def test_ats(self) -> None:
        state = decode(bytes(full())).ats
        assert state == AtsState(offset=ATS, is_enabled=True, queue_depth=8, is_page_aligned=True)

    def test_a_queue_depth_of_zero_is_32(self) -> None:
        data = full()
        pack_into("<HH", data, ATS + 4, 0, 0)
        assert decode(bytes(data)).ats == AtsState(offset=ATS, is_enabled=False, queue_depth=32, is_page_aligned=False)

    def test_pasid(self) -> None:
        assert decode(bytes(full())).pasid == PasidState(
            offset=PASID, is_enabled=True, width=20, can_execute=True, can_be_privileged=False
        )

    def test_error_status_by_name_and_no_bit_lost(self) -> None:
        state = decode(bytes(full())).aer
        assert isinstance(state, AerState)
        assert state.uncorrectable_names == ("CmpltTO", "UnsupReq", "bit30")
        assert state.correctable_names == ("BadTLP", "AdvNonFatalErr")
        assert state.fatal == 0x462030

    def test_msix(self) -> None:
        assert decode(bytes(full())).msix == MsixState(
            offset=MSIX,
            vectors=9,
            is_enabled=True,
            is_masked=True,
            table_bar=2,
            table_offset=0xB90000,
            pending_bar=4,
            pending_offset=0xBA0000,
        )

    def test_nothing_of_it_in_a_bare_function(self) -> None:
        data = bytearray(reg.CONVENTIONAL_SIZE)
        decoded = decode(bytes(data))
        assert [getattr(decoded, name) for name in OPTIONAL] == [None] * len(OPTIONAL)


class TestAllOnes:
    """Registers of all ones are no answer: the device fell asleep while it was read."""

    @pytest.mark.parametrize(
        ("field", "offset", "size"),
        [
            ("ats", ATS + 4, 4),
            ("pasid", PASID + 4, 4),
            ("aer", AER + 4, 0x14),
            ("acs", ACS + 4, 4),
            ("msix", MSIX + 2, 10),
            ("link", EXPRESS + reg.EXP_LINK_CAP, 8),
            ("link_control", EXPRESS + reg.EXP_LINK_CAP, 8),
            ("link_control", EXPRESS + reg.EXP_LINK_CONTROL, 2),
        ],
    )
    def test_registers(self, field: str, offset: int, size: int) -> None:
        data = full()
        data[offset : offset + size] = b"\xff" * size
        assert isinstance(getattr(decode(bytes(data)), field), Unknown)

    @pytest.mark.parametrize("field", ["ats", "pasid", "aer", "acs", "dsn", "sriov_total_vfs", "rebar"])
    def test_extended_space(self, field: str) -> None:
        data = full()
        data[0x100:] = b"\xff" * 0xF00
        assert isinstance(getattr(decode(bytes(data)), field), Unknown)


class TestCut:
    def test_a_vendor_capability_that_is_cut_is_no_proof_of_no_clique(self) -> None:
        assert isinstance(decode(bytes(full()[:0xC5])).clique, Unknown)

    @given(st.integers(0, reg.EXTENDED_SIZE - 1))
    def test_cutting_gives_the_same_value_or_unknown(self, length: int) -> None:
        whole, cut = decode(bytes(full())), decode(bytes(full()[:length]))
        for name in OPTIONAL:
            value = getattr(cut, name)
            assert isinstance(value, Unknown) or value == getattr(whole, name), name

    @given(st.integers(0, reg.EXTENDED_SIZE - 1), st.sets(st.sampled_from(sorted(EXTENDED)[1:])))
    def test_a_cut_space_claims_no_absence_of_an_extended_capability(self, length: int, gone: set[int]) -> None:
        data = full()
        chain = [offset for offset in sorted(EXTENDED) if offset not in gone]
        for offset, following in zip(chain, [*chain[1:], 0], strict=True):
            head = int.from_bytes(data[offset : offset + 4], "little")
            pack_into("<I", data, offset, head & 0xFFFFF | following << 20)
        decoded = decode(bytes(data[:length]))
        assert None not in (decoded.ats, decoded.pasid, decoded.acs, decoded.dsn, decoded.sriov_total_vfs)
        assert decoded.rebar is not False

    @pytest.mark.parametrize("length", [0, 1, 63, 64])
    def test_a_short_space_knows_none_of_it(self, length: int) -> None:
        decoded = decode(bytes(full()[:length]))
        assert all(isinstance(getattr(decoded, name), Unknown) for name in OPTIONAL)


class TestDamage:
    @given(st.integers(0, 7), st.integers(0, 0xFFF))
    def test_a_chain_that_goes_astray_proves_nothing_behind_it(self, link: int, target: int) -> None:
        """Point one link of the chain anywhere: what was there is found, Unknown, or really off the new chain."""
        data = full()
        offset = sorted(EXTENDED)[link % len(EXTENDED)]
        head = int.from_bytes(data[offset : offset + 4], "little")
        pack_into("<I", data, offset, head & 0xFFFFF | target << 20)
        decoded = decode(bytes(data))
        lands = target & 0xFFC
        if 0 < lands < reg.CONVENTIONAL_SIZE or (lands in EXTENDED and lands <= offset):
            behind = [name for at, name in FIELDS if at > offset]
            assert all(isinstance(getattr(decoded, name), Unknown) for name in behind)

    @given(st.data())
    def test_any_damage_gives_a_value(self, data: st.DataObject) -> None:
        raw = full()
        for _ in range(data.draw(st.integers(0, 12))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        decode(bytes(raw[: data.draw(st.integers(0, len(raw)))]))

    @given(st.binary(min_size=64, max_size=256))
    def test_any_bytes_give_a_value(self, head: bytes) -> None:
        decode(head + bytes(reg.EXTENDED_SIZE - len(head)))
        decode(head)

    def test_a_looping_list_makes_msix_unknown(self) -> None:
        data = full()
        data[EXPRESS + 1] = 0xC0
        data[0xC1] = EXPRESS
        assert isinstance(decode(bytes(data)).msix, Unknown)
