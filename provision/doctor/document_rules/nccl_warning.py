"""NCCL or the program above it says that something failed, in words that need a translation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from provision.doctor.cite import quoted
from provision.doctor.finding import Severity
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.mention import Mention
from provision.readers.nccl_log_model import NcclLog

ID = "nccl-warning"


class Meaning(NamedTuple):
    words: tuple[str, ...]
    """Any of them, in lower case."""
    severity: Severity
    summary: str
    remedy: tuple[str, ...]


MEANINGS = (
    Meaning(
        ("dev/shm", "shared memory segment", "posix_fallocate"),
        "error",
        "no room or no right for shared memory below /dev/shm",
        ("df -h /dev/shm", "docker run --ipc=host ... (or --shm-size=16g)", "export NCCL_CUMEM_HOST_ENABLE=0"),
    ),
    Meaning(
        ("duplicate gpu detected",),
        "error",
        "two ranks were given the same GPU",
        ("nvidia-smi -L", "give each rank its own GPU: CUDA_VISIBLE_DEVICES or the rank's local number"),
    ),
    Meaning(
        ("nvls", "multicast"),
        "warning",
        "NVLink multicast cannot be used",
        ("export NCCL_NVLS_ENABLE=0", "look at the fabric manager's state: nvidia-smi -q | grep -A4 Fabric"),
    ),
    Meaning(
        ("maxsharedmem", "exceeds device"),
        "error",
        "this NCCL is too old for this GPU",
        ("pip install --upgrade nvidia-nccl-cu12",),
    ),
    Meaning(
        ("no kernel image is available", "cuda driver version is insufficient", "unsupported ptx"),
        "error",
        "this NCCL was built for other GPUs or another driver than these",
        ("nvidia-smi", "pip install --upgrade nvidia-nccl-cu12"),
    ),
    Meaning(
        ("out of memory",),
        "error",
        "a GPU has no memory left for NCCL's buffers",
        ("nvidia-smi", "give the server less of the memory, or NCCL smaller buffers: NCCL_BUFFSIZE=1048576"),
    ),
    Meaning(
        ("illegal memory access", "unspecified launch failure", "uncorrectable", "unknown error"),
        "error",
        "a GPU faulted during a collective: look for an Xid in the guest's kernel log",
        ("dmesg | grep -i -e NVRM -e Xid", "NCCL_P2P_DISABLE=1 as a counter-check"),
    ),
    Meaning(
        ("mismatch", "version incompatib"),
        "error",
        "ranks do not agree: other sizes, other calls or another version of NCCL",
        ("compare the lines 'NCCL version' of all ranks",),
    ),
    Meaning(
        ("watchdog caught collective operation timeout", "timed out", "timeout"),
        "error",
        "a collective did not come to its end in time",
        ("pvectl p2p GUEST --full", "NCCL_P2P_DISABLE=1 as a counter-check"),
    ),
    Meaning(
        ("connection refused", "connection reset", "socketstartconnect", "no route to host", "broken pipe"),
        "error",
        "another rank cannot be reached: it ended, or a firewall or the wrong interface is between",
        ("look at the other ranks' logs first", "export NCCL_SOCKET_IFNAME=lo (all ranks in one machine)"),
    ),
    Meaning(
        ("could not enable p2p", "p2p is disabled", "peer access"),
        "warning",
        "P2P was granted and cannot be had",
        ("nvidia-smi topo -p2p r", "pvectl p2p GUEST --full"),
    ),
)
GENERAL = (
    Meaning(
        ("unhandled system error", "ncclsystemerror"),
        "error",
        "a call to the system failed: shared memory, a network interface or another rank",
        ("NCCL_DEBUG=INFO shows which", "df -h /dev/shm"),
    ),
    Meaning(
        ("unhandled cuda error", "ncclunhandledcudaerror", "cuda failure"),
        "error",
        "a call to CUDA failed",
        ("NCCL_DEBUG=INFO shows which", "dmesg | grep -i -e NVRM -e Xid"),
    ),
    Meaning((), "warning", "NCCL reports a failure", ("NCCL_DEBUG=INFO shows the lines before it",)),
)
"""What is said of a line without words of its own, where no other line tells more."""
_MOST = 4


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    sorted_out: dict[Meaning, list[Mention]] = {}
    for mention in _mentions(reading):
        sorted_out.setdefault(meaning(mention.text), []).append(mention)
    special = {what: mentions for what, mentions in sorted_out.items() if what not in GENERAL}
    for what, mentions in (special or sorted_out).items():
        yield found(
            ID,
            what.severity,
            ["nccl"],
            what.summary,
            [quoted(document, each.line, each.text) for each in mentions[:_MOST]],
            "the collective fails, or falls back to a slower way",
            *what.remedy,
            source="NCCL documentation, troubleshooting; NCCL, src/misc/shmutils.cc, src/init.cc, src/transport/",
            cause=what.summary,
        )


def meaning(text: str) -> Meaning:
    """Return what a line means: the first meaning that has one of its words."""
    lower = text.lower()
    return next((each for each in (*MEANINGS, *GENERAL) if any(word in lower for word in each.words)), GENERAL[-1])


def _mentions(reading: NcclLog) -> Iterable[Mention]:
    return (*reading.warnings, *reading.errors, *reading.notes)


RULE = DocumentRule(ID, "NCCL reports a failure", frozenset({"nccl-log"}), check)
