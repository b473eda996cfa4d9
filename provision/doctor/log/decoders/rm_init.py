"""``RmInitAdapter failed! (0xA:0xB:C)``: stage, status and source line.

Source: NVIDIA open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c (branch 595; older branches number
some stages differently).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from provision.doctor.log.decoders.nv_status import NV_STATUS

SOURCE = "NVIDIA open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c"

STAGES: dict[int, str] = {
    0x10: "register setup",
    0x11: "system environment",
    0x20: "allocation of the GPU",
    0x21: "creation of the device",
    0x22: "attach of the GPU",
    0x23: "preparation of its state",
    0x24: "state init",
    0x25: "loading of its state",
    0x26: "DMA configuration",
    0x27: "extended visibility of memory",
    0x30: "video BIOS",
    0x31: "video BIOS",
    0x32: "video BIOS",
    0x40: "scaling over several GPUs",
    0x41: "watchdog",
    0x44: "programming interface",
    0x45: "information about the GPU",
    0x60: "policy for its firmware",
    0x61: "fetch of its firmware",
    0x62: "start of its firmware",
}

# Combinations that people reported with a cause.
_KNOWN: dict[tuple[int, int], str] = {
    (
        0x22,
        0x56,
    ): "the usual causes: a proprietary module on a GPU that wants the open one, a driver older than the GPU, "
    "or a GPU that is lost",
    (0x62, 0x40): "with 'WPR2 already up' before it: the GPU was not reset after an earlier start",
    (0x62, 0x65): "the GSP did not start in time",
    (0x62, 0x1F): "the first error of the log is the cause, not this one",
    (0x61, 0x56): "its firmware file is missing",
}

_CODE = re.compile(r"\(?0x([0-9a-f]{1,8}):0x([0-9a-f]{1,8}):(\d{1,8})\)?")


class RmInit(NamedTuple):
    stage: int
    status: int
    line: int
    """Line of the driver's source; differs with each version and says nothing by itself."""

    @property
    def stage_text(self) -> str:
        return STAGES.get(self.stage, "a stage that differs between driver branches")

    @property
    def status_text(self) -> str:
        return NV_STATUS.get(self.status, "a status that is not in the table")

    @property
    def text(self) -> str:
        words = f"stage 0x{self.stage:x} ({self.stage_text}), status 0x{self.status:x} ({self.status_text})"
        known = _KNOWN.get((self.stage, self.status))
        return f"{words}; {known}" if known else words


def parse(text: str) -> RmInit | None:
    """Read ``0x22:0x56:884``, with or without its parentheses, anywhere in a text."""
    found = _CODE.search(text)
    return None if found is None else RmInit(int(found[1], 16), int(found[2], 16), int(found[3]))
