"""Every decoder over one pasted text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from provision.doctor.log.decoders import aer, amdvi, cuda, dmar, rm_init
from provision.doctor.log.decoders import xid as xids
from provision.doctor.log.decoders.nv_status import NV_STATUS
from provision.evidence import Frozen


class Decoded(Frozen):
    """One code in a text."""

    kind: str
    """``xid``, ``rminit``, ``cuda``, ``nv-status``, ``aer``, ``dmar``, ``amd-vi`` or ``gsp-rpc``."""
    code: str
    """As it stands in the text: ``79``, ``0x22:0x56:884``, ``CUDA_ERROR_NO_DEVICE``."""
    title: str
    meaning: tuple[str, ...]
    action: str
    """What to do, in words; empty where ``remedy`` says it all."""
    remedy: tuple[str, ...]
    source: str


_XID = re.compile(
    r"\bXid\b(?: \([^)]{1,40}\))?:? ?(?:error )?(?P<number>\d{1,4})\b(?=(?P<rest>.{0,200}))", re.IGNORECASE
)
_XID_WORD = re.compile(r"\bxid[-_]?(?P<number>\d{1,4})\b(?P<rest>)", re.IGNORECASE)
_RM_INIT = re.compile(r"0x[0-9a-f]{1,8}:0x[0-9a-f]{1,8}:\d{1,8}")
_CUDA_NAME = re.compile(r"\bCUDA_ERROR_(?P<name>[A-Z_]{3,40})\b|\bcudaError(?P<runtime>[A-Z][A-Za-z]{3,40})\b")
_CUDA_NUMBER = re.compile(
    r"\b(?:cuInit|cuda|CUresult|cudaGetDeviceCount)\b.{0,40}?\b(?:error|returned|code|=|:|"
    r"->)?\s?(?:code )?(?P<a>\d{1,3})\b"
    r"|\b[Ee]rror (?P<b>802|803|804|999)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(r"\bNV_ERR_[A-Z_]{3,40}\b|\bstatus[ =:]{1,3}0x0{0,4}(?P<status>[0-9a-f]{2,4})\b")
_AER = re.compile(r"error status/mask=(?P<status>[0-9a-f]{8})/(?P<mask>[0-9a-f]{8})")
_AER_LINE = re.compile(r"aer_(?P<kind>cor|uncor)_status: 0x(?P<status>[0-9a-f]{8})")
_DMAR = re.compile(r"\[fault reason (?P<reason>(?:0x)?[0-9a-f]{1,3})\]")
_AMDVI = re.compile(
    r"IO_PAGE_FAULT [^\]]{0,120}?address=0x(?P<address>[0-9a-f]{1,16}) flags=0x(?P<flags>[0-9a-f]{1,8})"
)
_RPC = re.compile(
    r"waiting for RPC response from (?:GPU\d{1,3} )?GSP! Expected function (?P<number>\d{1,5}) \((?P<name>\w{2,40})\)"
)


def decode(text: str) -> tuple[Decoded, ...]:
    """Return what the codes in ``text`` mean, in order of kind, each once.  Never raises."""
    found: dict[tuple[str, str], Decoded] = {}
    line = " ".join(text.split())
    for decoder in _DECODERS:
        for one in decoder(line):
            found.setdefault((one.kind, one.code), one)
    return tuple(found.values())


def by_name(text: str) -> tuple[Decoded, ...]:
    """Return what a bare code means: ``xid79``, ``Xid 79``, ``802``, ``CUDA_ERROR_NO_DEVICE``, ``0x22:0x56:884``."""
    word = text.strip().strip("'\"")
    if word.isascii() and word.isdigit() and int(word) in cuda.CUDA_ERRORS and len(word) <= 3:
        number = int(word)
        named = (_cuda(cuda.CUDA_ERRORS[number], word),)
        return (*named, _xid(number, "")) if number in xids.XIDS and number else named
    if word.isascii() and word.isdigit() and len(word) <= 3 and int(word) in xids.XIDS:
        return (_xid(int(word), ""),)
    name = word.upper().removeprefix("CUDA_ERROR_")
    if name in cuda.BY_NAME:
        return (_cuda(cuda.BY_NAME[name], word),)
    return decode(word)


def _xid_lines(text: str) -> Iterator[Decoded]:
    for pattern in (_XID, _XID_WORD):
        for found in pattern.finditer(text):
            yield _xid(int(found["number"]), found["rest"])


def _xid(number: int, rest: str) -> Decoded:
    known = xids.xid(number)
    asks = xids.recovery(rest) if number == 154 else None
    meaning = [known.title]
    if asks:
        meaning.append(f"it asks for: {asks}")
    if known.is_application:
        meaning.append("a program is to blame as far as the number tells, not the GPU or its passthrough")
    return Decoded(
        kind="xid",
        code=str(number),
        title=f"Xid {number}: {known.title}",
        meaning=tuple(meaning[1:]),
        action=f"{known.action}: {asks or known.advice}",
        remedy=known.remedy,
        source=xids.SOURCE,
    )


def _rm_init_lines(text: str) -> Iterator[Decoded]:
    for found in _RM_INIT.finditer(text):
        code = rm_init.parse(found[0])
        if code is not None:
            yield Decoded(
                kind="rminit",
                code=found[0],
                title=f"RmInitAdapter failed ({found[0]}): {code.status_text} at {code.stage_text}",
                meaning=(code.text, f"{code.line} is a line of the driver's source, which differs with each version"),
                action="find the first NVRM line about the device: it is the cause, this one follows",
                remedy=("dmesg | grep -e NVRM -e nvidia",),
                source=rm_init.SOURCE,
            )


def _cuda_names(text: str) -> Iterator[Decoded]:
    for found in _CUDA_NAME.finditer(text):
        name = (found["name"] or found["runtime"] or "").upper()
        row = cuda.BY_NAME.get(name) or cuda.CUDA_ERRORS.get(cuda.RUNTIME_NAMES.get(name, -1))
        if row is not None:
            yield _cuda(row, found[0])


def _cuda_numbers(text: str) -> Iterator[Decoded]:
    for found in _CUDA_NUMBER.finditer(text):
        row = cuda.CUDA_ERRORS.get(int(found["a"] or found["b"]))
        if row is not None and row.code:
            yield _cuda(row, found["a"] or found["b"])


def _cuda(row: cuda.CudaError, code: str) -> Decoded:
    return Decoded(
        kind="cuda",
        code=code,
        title=f"CUDA error {row.code} (CUDA_ERROR_{row.name}): {row.text}",
        meaning=(),
        action="" if row.remedy else "look at the program",
        remedy=row.remedy,
        source=cuda.SOURCE,
    )


def _statuses(text: str) -> Iterator[Decoded]:
    for found in _STATUS.finditer(text):
        meaning = NV_STATUS.get(int(found["status"], 16)) if found["status"] and "NV" in text else None
        if meaning:
            yield Decoded(
                kind="nv-status",
                code=f"0x{found['status']}",
                title=f"NV_STATUS 0x{found['status']}: {meaning}",
                meaning=(),
                action="find the first NVRM line about the device",
                remedy=("dmesg | grep NVRM",),
                source="NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nvstatuscodes.h",
            )


def _aer_lines(text: str) -> Iterator[Decoded]:
    is_correctable = "severity=Correct" in text and "severity=Uncorrect" not in text
    for found in _AER.finditer(text):
        yield _aer(found["status"], is_correctable=is_correctable)
    for found in _AER_LINE.finditer(text):
        yield _aer(found["status"], is_correctable=found["kind"] == "cor")


def _aer(status: str, *, is_correctable: bool) -> Decoded:
    lines = aer.bits(int(status, 16), is_correctable=is_correctable)
    kind = "correctable" if is_correctable else "uncorrectable"
    return Decoded(
        kind="aer",
        code=status,
        title=f"AER {kind} status {status}: {', '.join(line.split(':', 1)[0] for line in lines) or 'no bit set'}",
        meaning=lines,
        action="look at the link" if is_correctable else "look at the device and its link",
        remedy=("lspci -vv | grep -e LnkSta -e UESta -e CESta",),
        source=aer.SOURCE,
    )


def _dmar_lines(text: str) -> Iterator[Decoded]:
    for found in _DMAR.finditer(text):
        number = dmar.reason(found["reason"])
        yield Decoded(
            kind="dmar",
            code=found["reason"],
            title=f"DMAR fault reason 0x{number:02x}: {dmar.reason_text(number)}",
            meaning=(),
            action="compare the fault address with the reserved regions (RMRR) and with what the driver mapped",
            remedy=("dmesg | grep -e 'Request device' -e RMRR",),
            source=dmar.SOURCE,
        )


def _amdvi_lines(text: str) -> Iterator[Decoded]:
    for found in _AMDVI.finditer(text):
        said = (*amdvi.flags_text(int(found["flags"], 16)), amdvi.address_text(int(found["address"], 16)))
        yield Decoded(
            kind="amd-vi",
            code=f"0x{found['address']}/0x{found['flags']}",
            title=f"AMD-Vi IO_PAGE_FAULT with flags 0x{found['flags']}",
            meaning=tuple(line for line in said if line),
            action="look at the device that the line names, its driver or its guest",
            remedy=("dmesg | grep IO_PAGE_FAULT",),
            source=amdvi.SOURCE,
        )


def _rpc_lines(text: str) -> Iterator[Decoded]:
    for found in _RPC.finditer(text):
        yield Decoded(
            kind="gsp-rpc",
            code=found["number"],
            title=f"the GSP did not answer function {found['number']} ({found['name']})",
            meaning=("the first function that got no answer counts; the later ones wait behind it",),
            action="reset the GPU",
            remedy=("nvidia-smi --gpu-reset -i GPU   # in a VM: qm stop VMID, then qm start VMID",),
            source="NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c",
        )


_DECODERS: tuple[Callable[[str], Iterator[Decoded]], ...] = (
    _xid_lines,
    _rm_init_lines,
    _cuda_names,
    _cuda_numbers,
    _statuses,
    _aer_lines,
    _dmar_lines,
    _amdvi_lines,
    _rpc_lines,
)
