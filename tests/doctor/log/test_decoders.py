"""Codes in messages: what each table says, and what a pasted text is decoded to."""

from __future__ import annotations

import pytest

from provision.doctor.log.decoders import aer, amdvi, by_name, cuda, decode, dmar, rm_init
from provision.doctor.log.decoders.nv_status import NV_STATUS
from provision.doctor.log.decoders.xid import ACTIONS, XIDS, recovery, xid

REFERENCE = (13, 31, 32, 43, 45, 46, 48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 109, 110, 119, 120, 121, 122, 123, 124)
LATER = (125, 136, 140, 143, 154, 158, 167, 168, 171, 172, 175, 176)


@pytest.mark.parametrize("number", [*REFERENCE, *LATER])
def test_every_xid_of_the_reference_is_known(number: int) -> None:
    known = XIDS[number]
    assert known.title
    assert known.action in ACTIONS


def test_the_catalogue_has_no_gap() -> None:
    assert set(range(1, 173)) <= set(XIDS)


@pytest.mark.parametrize(
    ("number", "action", "severity", "is_application"),
    [
        (13, "RESTART_APP", "warning", True),
        (31, "RESTART_APP", "warning", True),
        (43, "IGNORE", "warning", True),
        (45, "WORKFLOW_XID_45", "warning", True),
        (63, "IGNORE", "info", False),
        (79, "RESTART_BM", "error", False),
        (94, "RESTART_APP", "warning", False),
        (119, "RESET_GPU", "error", False),
        (154, "XID_154", "error", False),
        (167, "NONE_GIVEN", "error", False),
        (9999, "NONE_GIVEN", "warning", False),
    ],
)
def test_actions_and_severities(number: int, action: str, severity: str, is_application: bool) -> None:
    known = xid(number)
    assert (known.action, known.severity, known.is_application) == (action, severity, is_application)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("GPU recovery action: Node Reboot Required", "Node Reboot Required"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "Node Reboot Required"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "None"),
        ("something else", None),
    ],
)
def test_recovery(text: str, asks: str | None) -> None:
    assert recovery(text) == asks


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("0x22:0x56:884", ("attach", "not supported", "open one")),
        ("(0x24:0x72:1447)", ("state init", "memory error")),
        ("0x62:0x40:2192", ("WPR2",)),
        ("0x63:0x55:2344", ("differs between driver branches", "not ready")),
        ("0x22:0xabcd:1", ("not in the table",)),
    ],
)
def test_rm_init(code: str, words: tuple[str, ...]) -> None:
    parsed = rm_init.parse(code)
    assert parsed is not None
    assert all(word in parsed.text for word in words)


def test_what_is_no_rm_init_code() -> None:
    assert rm_init.parse("0x22:0x56") is None


@pytest.mark.parametrize("status", [0x0F, 0x1A, 0x1F, 0x24, 0x38, 0x40, 0x51, 0x55, 0x56, 0x59, 0x62, 0x65, 0xFFFF])
def test_every_status_of_the_reference_is_known(status: int) -> None:
    assert NV_STATUS[status]


@pytest.mark.parametrize("code", [3, 34, 46, 100, 101, 102, 304, 802, 803, 804, 999])
def test_every_cuda_code_of_the_reference_is_known(code: int) -> None:
    assert cuda.CUDA_ERRORS[code].text


def test_cuda_names_are_unique() -> None:
    assert len(cuda.BY_NAME) == len(cuda.CUDA_ERRORS)


def test_aer() -> None:
    assert aer.names(0x00100000, is_correctable=False) == ("UnsupReq",)
    assert aer.names(0x00004020, is_correctable=False) == ("SDES", "CmpltTO")
    assert aer.names(0x41, is_correctable=True) == ("RxErr", "BadTLP")
    assert aer.bits(1 << 31, is_correctable=True) == ("bit 31: reserved",)


@pytest.mark.parametrize(
    ("text", "number", "word"),
    [
        ("06", 6, "read"),
        ("0x06", 6, "read"),
        ("05", 5, "written"),
        ("34", 34, "empty"),
        ("0x26", 0x26, "sender"),
        ("0c", 12, "reserved"),
        ("0x59", 0x59, "PASID"),
        ("0xff", 0xFF, "no table"),
    ],
)
def test_dmar_reasons_of_old_and_new_kernels(text: str, number: int, word: str) -> None:
    assert dmar.reason(text) == number
    assert word in dmar.reason_text(number)


def test_amd_flags() -> None:
    assert amdvi.flags_text(0x0020) == ("the page is not mapped for the device", "write")
    assert "read" in amdvi.flags_text(0x0000)
    assert len(amdvi.flags_text(0x0028)) == 1
    assert amdvi.address_text(0xFFFFFFFDF8030000)
    assert not amdvi.address_text(0xD0000000)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Xid 79", ["xid"]),
        ("xid79", ["xid"]),
        ("XID-119", ["xid"]),
        ("NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.", ["xid"]),
        ("802", ["cuda"]),
        ("79", ["xid"]),
        ("100", ["cuda", "xid"]),
        ("CUDA_ERROR_SYSTEM_NOT_READY", ["cuda"]),
        ("SYSTEM_NOT_READY", ["cuda"]),
        ("cudaErrorSystemNotReady", ["cuda"]),
        ("cuInit returned 3", ["cuda"]),
        ("cuInit failed: 999", ["cuda"]),
        ("0x22:0x56:884", ["rminit"]),
        ("error status/mask=00100000/00000000", ["aer"]),
        ("[fault reason 06]", ["dmar"]),
        ("[IO_PAGE_FAULT device=41:00.0 domain=0x005e\naddress=0xd0000000 flags=0x0020]", ["amd-vi"]),
        ("waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL)", ["gsp-rpc"]),
        ("NVRM: call failed, status=0x65", ["nv-status"]),
        ("the printer is out of paper", []),
        ("7", ["xid"]),
        ("12345", []),
        ("", []),
    ],
)
def test_what_a_text_is_decoded_to(text: str, kinds: list[str]) -> None:
    found = by_name(text)
    assert [one.kind for one in found] == kinds
    for one in found:
        assert one.title
        assert one.action or one.remedy
        assert one.source


def test_each_code_once() -> None:
    assert len(decode("Xid 79, Xid 79, Xid 13")) == 2
    assert decode("severity=Corrected\nerror status/mask=00000041/00006000")[0].meaning[0].startswith("RxErr")
