"""Registers of single capabilities, and what is not printed of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.capability_state import LinkControl, MsixState, PasidState
from provision.pci.model import ConfigSpace, PciFunction

Functions = Callable[[str], dict[str, PciFunction]]

HEAD = (
    "01:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)\n\tControl: I/O-\n\tStatus: Cap+\n"
    "\tCapabilities: [60] Express (v2) Legacy Endpoint, MSI 00\n\t\tLnkCtl:\t{link}\n"
)
ZERO = "DLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-"
ERRORS = (
    "\tCapabilities: [1b8 v2] Advanced Error Reporting\n"
    "\t\tUESta:\t" + ZERO.replace("UnsupReq-", "UnsupReq+") + "\n"
    "\t\tUEMsk:\t" + ZERO + "\n"
    "\t\tUESvrt:\t" + ZERO.replace("DLP-", "DLP+") + "\n"
    "\t\tCESta:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr+\n"
)


@pytest.fixture
def space(functions: Functions) -> Callable[..., ConfigSpace]:
    def make(more: str = "", link: str = "ASPM Disabled; RCB 64 bytes, Disabled- CommClk+") -> ConfigSpace:
        config = functions(HEAD.format(link=link) + more)["0000:01:00.0"].config
        assert isinstance(config, ConfigSpace)
        return config

    return make


Space = Callable[..., ConfigSpace]


@pytest.mark.parametrize(
    ("text", "l0s", "l1", "disabled"),
    [
        ("ASPM Disabled; RCB 64 bytes, Disabled- CommClk+", False, False, False),
        ("ASPM L0s L1 Enabled; RCB 64 bytes Disabled- CommClk+", True, True, False),
        ("ASPM L1 Enabled; RCB 64 bytes, LnkDisable+ CommClk+", False, True, True),
        ("ASPM L0s Enabled; Disabled- CommClk+", True, False, False),
    ],
)
def test_link_control(space: Space, text: str, l0s: bool, l1: bool, disabled: bool) -> None:
    assert space(link=text).link_control == LinkControl(
        aspm_l0s=l0s, aspm_l1=l1, is_disabled=disabled, has_common_clock=True
    )


def test_link_control_that_does_not_read_as_expected(space: Space) -> None:
    assert isinstance(space(link="something else").link_control, Unknown)


def test_interrupt_vectors(space: Space) -> None:
    title = "\tCapabilities: [b0] MSI-X: Enable+ Count=9 Masked-\n"
    tables = "\t\tVector table: BAR=0 offset=00b90000\n\t\tPBA: BAR=2 offset=00ba0000\n"
    assert space(title + tables).msix == MsixState(
        offset=0xB0,
        vectors=9,
        is_enabled=True,
        is_masked=False,
        table_bar=0,
        table_offset=0xB90000,
        pending_bar=2,
        pending_offset=0xBA0000,
    )
    assert isinstance(space(title).msix, Unknown)
    assert space().msix is None


def test_errors_are_named_but_not_all_bits_are_known(space: Space) -> None:
    found = space(ERRORS).aer
    assert isinstance(found, Unknown)
    assert found.unknown.endswith("set among them: UnsupReq, AdvNonFatalErr")
    assert space(ERRORS.replace("Advanced Error Reporting", "Power Budgeting <?>")).aer is None


def test_address_spaces(space: Space) -> None:
    title = "\tCapabilities: [2d0 v1] Process Address Space ID (PASID)\n"
    registers = "\t\tPASIDCap: Exec+ Priv-, Max PASID Width: 14\n\t\tPASIDCtl: Enable+ Exec- Priv-\n"
    assert space(title + registers).pasid == PasidState(
        offset=0x2D0, is_enabled=True, width=20, can_execute=True, can_be_privileged=False
    )
    assert isinstance(space(title).pasid, Unknown)
    assert space(ERRORS).pasid is None


def test_address_translation_is_not_printed_whole(space: Space) -> None:
    assert isinstance(space("\tCapabilities: [2b0 v1] Address Translation Service (ATS)\n").ats, Unknown)
    assert space(ERRORS).ats is None


def test_a_clique_may_hide_in_a_vendor_capability(space: Space) -> None:
    assert space().clique is None
    assert isinstance(space("\tCapabilities: [c8] Vendor Specific Information: Len=08 <?>\n").clique, Unknown)
    assert space("\tCapabilities: [c8] Vendor Specific Information: Len=14 <?>\n").clique is None
