"""The kernel log of a simulated guest: what its NVIDIA driver says of each GPU, as records of /dev/kmsg."""

from __future__ import annotations

from collections.abc import Iterable

BAR_LINES = (
    "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
    "NVRM: BAR1 is 0M @ 0x0 (PCI:{bdf})",
    "nvidia {bdf}: probe with driver nvidia failed with error -1",
)
CLOSED_LINES = (
    "NVRM: The NVIDIA GPU {bdf} (PCI ID: 10de:{device})",
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
    "NVRM: GPU {bdf}: RmInitAdapter failed! (0x22:0x56:884)",
)
FIRST_SECOND = 3.2


def kernel_log(loading: str | None, unplaced: Iterable[str], refused: Iterable[tuple[str, str]]) -> str:
    """Return records: ``loading`` is the driver's own line, None without a driver.

    ``unplaced`` are addresses of GPUs without room for their registers, ``refused`` addresses and device ids of
    GPUs that the module's flavor does not take.
    """
    lines = ["Linux version", "Hypervisor detected: KVM"]
    if loading is not None:
        lines.append(f"NVRM: loading {loading}")
        lines += [text.format(bdf=bdf) for bdf in unplaced for text in BAR_LINES]
        lines += [text.format(bdf=bdf, device=device) for bdf, device in refused for text in CLOSED_LINES]
    return "".join(f"4,{n},{int((FIRST_SECOND + n / 10) * 1e6)},-;{line}\n" for n, line in enumerate(lines))
