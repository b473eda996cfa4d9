"""nvidia-smi printed an error in place of an answer, or of a value."""

from __future__ import annotations

from typing import NamedTuple

from provision.doctor.cite import quoted
from provision.doctor.finding import Finding, Severity
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS, label
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import ErrorKind, SmiError, SmiGpu, SmiReading

ID = "smi-error"
SOURCE = "NVIDIA, NVML API reference, nvmlReturn_t; NVIDIA, Xid errors"


class _Meaning(NamedTuple):
    severity: Severity
    says: str
    consequence: str
    remedy: str


_MEANINGS: dict[ErrorKind, _Meaning] = {
    "gpu-lost": _Meaning(
        "error",
        "{where} is lost: it no longer answers on the bus",
        "nothing runs on it, and a reset inside the guest does not bring it back",
        "journalctl -k -b | grep -e Xid -e AER   # on the host, around that time; then a cold start of the host",
    ),
    "reset-required": _Meaning(
        "error",
        "{where} asks for a reset",
        "no new work starts on it until then",
        "qm stop VMID && qm start VMID   # a whole stop, so that the host resets the device",
    ),
    "no-devices": _Meaning(
        "error",
        "the driver is loaded and started no GPU",
        "the kernel log says why; this message does not",
        "dmesg | grep -i nvrm   # add it to what the doctor reads",
    ),
    "no-driver": _Meaning(
        "error",
        "the NVIDIA driver does not run",
        "the module is not loaded, or left because no device could be started",
        "dmesg | grep -i -e nvrm -e nouveau -e 'Key was rejected'   # add it to what the doctor reads",
    ),
    "version-mismatch": _Meaning(
        "error",
        "the loaded module and the libraries are of different versions",
        "no program that uses the GPU starts",
        "reboot   # the guest: an update has replaced the libraries and left the old module loaded",
    ),
    "other": _Meaning(
        "error",
        "nvidia-smi reports an error at {where}",
        "what the GPU's state is cannot be told from this",
        "dmesg | grep -i -e nvrm -e xid   # add it to what the doctor reads",
    ),
}


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    for error in reading.errors:
        meaning = _MEANINGS.get(error.kind)
        if meaning is not None:
            yield _finding(document, error, meaning)
        else:
            missing = Unknown(unknown="nvidia-smi is not installed", supply="add the output of: lspci -nnk, and dmesg")
            yield undecided(ID, missing, "whether the GPUs work")
    dumb = [gpu for gpu in reading.gpus if gpu.errors]
    if dumb:
        yield _dumb(document, dumb)


def _finding(document: Document, error: SmiError, meaning: _Meaning) -> Finding:
    where = error.bdf or "a GPU"
    return found(
        ID,
        meaning.severity,
        (error.bdf or "guest",),
        meaning.says.format(where=where),
        (quoted(document, error.line, error.text),),
        meaning.consequence,
        meaning.remedy,
        source=SOURCE,
    )


def _dumb(document: Document, gpus: list[SmiGpu]) -> Finding:
    return found(
        ID,
        "error",
        (label(gpu) for gpu in gpus),
        f"{', '.join(dict.fromkeys(label(gpu) for gpu in gpus))} shows ERR! in place of a value",
        (quoted(document, gpu.line_of(gpu.errors[0]), f"{gpu.errors[0]}: ERR!") for gpu in gpus),
        "the GPU's firmware did not answer the driver: it fell off the bus, or its own processor has stopped",
        "dmesg | grep -i -e xid -e nvrm   # in the guest, and journalctl -k -b on the host",
        source=SOURCE,
        cause="a value reads ERR!",
    )


RULE = DocumentRule(ID, "nvidia-smi printed an error instead of an answer", SMI_KINDS, check)
