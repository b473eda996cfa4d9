"""Xid numbers: what they report, and what NVIDIA's catalogue says to do at once.

Source: NVIDIA, Xid catalogue (https://docs.nvidia.com/deploy/xid-errors/), actions for Ampere and newer; numbers in
nverror.h of open-gpu-kernel-modules.  The words are our own.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from provision.doctor.finding import Severity

SOURCE = "NVIDIA, Xid Errors, https://docs.nvidia.com/deploy/xid-errors/"

Action = Literal[
    "RESTART_APP",
    "IGNORE",
    "RESET_GPU",
    "RESTART_BM",
    "RESTART_VM",
    "CONTACT_SUPPORT",
    "CHECK_MECHANICALS",
    "UPDATE_SWFW",
    "CHECK_UVM",
    "WORKFLOW_XID_45",
    "WORKFLOW_XID_48",
    "WORKFLOW_NVLINK_ERR",
    "WORKFLOW_NVLINK5_ERR",
    "XID_154",
    "NONE_GIVEN",
]

_GPU_RESET = "nvidia-smi --gpu-reset -i {bdf}   # with nothing running on it; in a VM: qm stop VMID, then qm start VMID"
_COLD = "systemctl poweroff   # on the host: a cold start, where a reset does not help"

ACTIONS: dict[Action, tuple[str, tuple[str, ...]]] = {
    "RESTART_APP": (
        "restart the application",
        ("compute-sanitizer --tool memcheck PROGRAM   # which access of the program was wrong",),
    ),
    "IGNORE": ("nothing to do", ()),
    "RESET_GPU": ("reset the GPU", (_GPU_RESET, _COLD)),
    "RESTART_BM": (
        "restart the machine that owns the hardware",
        ("dmesg | grep -e AER -e 'Link Down' -e D3cold   # on the host: what the link did", _COLD),
    ),
    "RESTART_VM": ("restart the VM", ("qm reboot VMID",)),
    "CONTACT_SUPPORT": (
        "ask the vendor's support if it comes again",
        ("nvidia-bug-report.sh   # writes nvidia-bug-report.log.gz",),
    ),
    "CHECK_MECHANICALS": (
        "check cables and power plugs of the card",
        ("poweroff   # then check the card's power plug",),
    ),
    "UPDATE_SWFW": ("bring driver and firmware to one supported state", ("nvidia-smi -q | grep -e Version",)),
    "CHECK_UVM": ("look for an error of the memory manager before it", ("dmesg | grep -e uvm -e Xid",)),
    "WORKFLOW_XID_45": ("follow the other Xid of this GPU; alone: restart the fabric manager where there is one", ()),
    "WORKFLOW_XID_48": (
        "reset the GPU; with 63 or 64 beside it take it out of use first",
        ("nvidia-smi -q -d ECC,ROW_REMAPPER   # SRAM threshold exceeded: the card is for the vendor", _GPU_RESET),
    ),
    "WORKFLOW_NVLINK_ERR": (
        "check the link and both of its ends",
        ("nvidia-smi nvlink -e   # errors of each link", _GPU_RESET),
    ),
    "WORKFLOW_NVLINK5_ERR": ("decode the words of the message with NVIDIA's table", ("nvidia-smi nvlink -e",)),
    "XID_154": ("do what its text says", ("nvidia-smi -q | grep -i -A2 recovery",)),
    "NONE_GIVEN": ("the catalogue gives no action", ("nvidia-bug-report.sh   # writes nvidia-bug-report.log.gz",)),
}


class Xid(NamedTuple):
    number: int
    title: str
    action: Action
    severity: Severity

    @property
    def advice(self) -> str:
        return ACTIONS[self.action][0]

    @property
    def remedy(self) -> tuple[str, ...]:
        return ACTIONS[self.action][1]

    @property
    def is_application(self) -> bool:
        """Whether a program is to blame, as far as the number tells."""
        return self.number in _APPLICATION or (self.action == "RESTART_APP" and self.number not in _NOT_APPLICATION)


_APPLICATION = frozenset({13, 31, 43, 44, 45, 66, 67, 137, 141})
_NOT_APPLICATION = frozenset({32, 80, 94})


def _row(number: int, title: str, action: Action, severity: Severity | None = None) -> Xid:
    return Xid(number, title, action, severity or _SEVERITIES.get(action, "error"))


_SEVERITIES: dict[Action, Severity] = {
    "RESTART_APP": "warning",
    "IGNORE": "info",
    "WORKFLOW_XID_45": "warning",
    "UPDATE_SWFW": "warning",
    "RESTART_VM": "warning",
    "CHECK_UVM": "warning",
    "NONE_GIVEN": "warning",
}

_ENGINES: dict[str, tuple[int, ...]] = {
    "copy engine": (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135),
    "video decoder (NVDEC)": (68, 83, 84, 88, 89, 96, 97, 98),
    "image decoder (NVJPG)": (82, 99, 100, 101, 102, 103, 104, 105),
    "optical flow unit (OFA)": (86, 139),
    "security processor (SEC2)": (60,),
}
_OLDER: dict[str, tuple[int, ...]] = {
    "command queue (older GPUs)": (1, 2, 3, 4, 5, 6, 7, 26, 59),
    "graphics engine (older GPUs)": (9, 10, 12, 24),
    "display engine": (14, 15, 16, 17, 18, 19, 56, 112, 113, 114, 115, 116, 117, 118),
    "video engine (older GPUs)": (20, 21, 22, 27, 28, 29, 33, 34, 35, 36, 42, 47, 65, 73, 142),
    "noise and heat control (older GPUs)": (49, 50, 51, 52, 53, 55),
    "memory interface (older GPUs)": (57, 58, 90),
    "telemetry and reserved numbers": (23, 30, 81, 87, 91, 111, 138),
    "flash memory of the card": (122, 123, 124, 125),
}

_ROWS: tuple[Xid, ...] = (
    _row(8, "the GPU stopped processing (idle timeout)", "RESTART_APP"),
    _row(11, "corrupted command stream", "RESTART_APP"),
    _row(13, "exception of the graphics engine: an application did something illegal", "RESTART_APP"),
    _row(25, "illegal command stream", "RESTART_APP"),
    _row(31, "page fault of the GPU's memory unit: an application used a wrong address", "RESTART_APP"),
    _row(32, "corrupted command stream: DMA over PCIe went wrong", "RESTART_APP"),
    _row(37, "firmware of the driver met an unknown command", "IGNORE"),
    _row(38, "watchdog of the driver's firmware", "IGNORE"),
    _row(43, "an application was stopped after a fault of its own", "IGNORE", "warning"),
    _row(44, "fault of the graphics engine while it changed its task", "IGNORE", "warning"),
    _row(45, "an application was removed after an earlier error, or was killed", "WORKFLOW_XID_45"),
    _row(46, "the GPU stopped processing", "RESET_GPU"),
    _row(48, "uncorrectable memory error (double bit, ECC)", "WORKFLOW_XID_48"),
    _row(54, "auxiliary power is not connected", "CHECK_MECHANICALS"),
    _row(61, "the power management processor stopped at a breakpoint", "CONTACT_SUPPORT"),
    _row(62, "the power management processor halted", "RESET_GPU"),
    _row(63, "a memory row was remapped, or a page retired", "IGNORE"),
    _row(64, "a memory row could not be remapped", "RESET_GPU"),
    _row(66, "illegal access by the driver", "IGNORE", "warning"),
    _row(67, "illegal access by the driver", "IGNORE", "warning"),
    _row(69, "class error of the graphics engine: an application did something illegal", "RESTART_APP"),
    _row(74, "error of an NVLink connection", "WORKFLOW_NVLINK_ERR"),
    _row(78, "a vGPU could not start", "UPDATE_SWFW"),
    _row(79, "the GPU has fallen off the bus: it no longer answers over PCIe", "RESTART_BM"),
    _row(80, "corrupted data reached the GPU", "RESTART_APP"),
    _row(92, "many single-bit memory errors", "IGNORE"),
    _row(93, "the card's information memory may not be written any more", "IGNORE"),
    _row(94, "memory error, contained in one application", "RESTART_APP"),
    _row(95, "memory error that was not contained", "RESET_GPU"),
    _row(106, "test message of the management bus", "IGNORE"),
    _row(107, "test message of the management bus", "IGNORE"),
    _row(108, "error of a remote address over NVLink", "IGNORE"),
    _row(109, "the change of tasks on the GPU timed out", "RESET_GPU"),
    _row(110, "security fault of the GPU", "RESET_GPU"),
    _row(119, "the GSP did not answer the driver in time (RPC timeout)", "RESET_GPU"),
    _row(120, "error of the GSP", "RESET_GPU"),
    _row(121, "corrected errors on the link to a Grace processor (C2C)", "IGNORE"),
    _row(136, "link training failed", "RESET_GPU"),
    _row(137, "illegal access over NVLink: an application used a wrong address", "IGNORE", "warning"),
    _row(140, "uncorrectable memory errors that could not be set aside", "RESET_GPU"),
    _row(141, "error of CUDA's fast path", "IGNORE", "warning"),
    _row(143, "the GPU could not be started", "RESET_GPU"),
    _row(144, "NVLink 5: SAW error", "WORKFLOW_NVLINK5_ERR"),
    _row(145, "NVLink 5: RLW error", "WORKFLOW_NVLINK5_ERR"),
    _row(146, "NVLink 5: TLW error", "WORKFLOW_NVLINK5_ERR"),
    _row(147, "NVLink 5: TREX error", "WORKFLOW_NVLINK5_ERR"),
    _row(148, "NVLink 5: NVLPW_CTRL error", "WORKFLOW_NVLINK5_ERR"),
    _row(149, "NVLink 5: NETIR error", "WORKFLOW_NVLINK5_ERR"),
    _row(150, "NVLink 5: MSE error", "WORKFLOW_NVLINK5_ERR"),
    _row(151, "keys of confidential computing could not be changed", "RESTART_VM"),
    _row(152, "memory unit of the deep learning accelerator", "IGNORE"),
    _row(153, "timeout of the deep learning accelerator", "IGNORE"),
    _row(154, "the driver says which recovery the GPU needs now", "XID_154"),
    _row(155, "an NVLink went down on purpose or by software", "RESET_GPU", "warning"),
    _row(156, "a part of the GPU was retired", "RESET_GPU", "warning"),
    _row(157, "a part of the GPU could not be retired", "IGNORE", "warning"),
    _row(158, "fatal timeout of the GPU", "RESET_GPU"),
    _row(159, "error on the link to the processor (CHI)", "CHECK_UVM"),
    _row(160, "a memory channel was retired", "IGNORE"),
    _row(161, "a memory channel could not be retired", "IGNORE", "warning"),
    _row(162, "power smoothing is on again", "NONE_GIVEN", "info"),
    _row(163, "power smoothing is off", "NONE_GIVEN", "info"),
    _row(164, "power smoothing is near the end of its life", "NONE_GIVEN", "info"),
    _row(165, "power smoothing is at the end of its life", "NONE_GIVEN"),
    _row(166, "unencrypted traffic on NVLink in confidential computing", "NONE_GIVEN"),
    _row(167, "fatal timeout on PCIe", "NONE_GIVEN", "error"),
    _row(168, "the GPU has less memory: errors in its protected region", "NONE_GIVEN"),
    _row(169, "the security processor halted", "NONE_GIVEN", "error"),
    _row(170, "interrupt of NVLink in confidential computing", "NONE_GIVEN"),
    _row(171, "details to Xid 48: the error is in DRAM", "NONE_GIVEN", "error"),
    _row(172, "details to Xid 48: the error is in SRAM", "NONE_GIVEN", "error"),
    _row(175, "error of the memory system", "NONE_GIVEN", "error"),
    _row(176, "corrected error on PCIe", "NONE_GIVEN"),
)
XIDS: dict[int, Xid] = {
    **{n: _row(n, f"error of the {name}", "CONTACT_SUPPORT") for name, ns in _OLDER.items() for n in ns},
    **{n: _row(n, f"exception of the {name}", "RESTART_APP") for name, ns in _ENGINES.items() for n in ns},
    **{row.number: row for row in _ROWS},
}

_RECOVERY = re.compile(
    r"GPU recovery action(?: changed)?(?: from [^()]{0,20}\([^)]{1,40}\) to [^()]{0,20}\(|: "
    r"?)(?P<to>[A-Z][A-Za-z0-9 ]{2,40})"
)


def xid(number: int) -> Xid:
    """Return what is known of a number; one that is in no table says so."""
    return XIDS.get(number) or Xid(number, "a number that is in no table here", "NONE_GIVEN", "warning")


def recovery(text: str) -> str | None:
    """Return the recovery that an Xid 154 asks for: ``Node Reboot Required``, ``None``."""
    found = _RECOVERY.search(text)
    return found["to"].strip() if found else None
