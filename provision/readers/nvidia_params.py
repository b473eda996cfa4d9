"""``/proc/driver/nvidia/params``: the options with which the NVIDIA module runs.

Source: NVIDIA open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c.
"""

from __future__ import annotations

import re

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention
from provision.readers.signals import certainty, signal

_SIGNALS = (
    signal(0.7, r"\s*RegistryDwords(?:PerDevice)?: \""),
    signal(0.7, r"\s*(?:ResmanDebugLevel|RmLogonRC|InitializeSystemMemoryAllocations|UsePageAttributeTable): \d"),
    signal(0.6, r"\s*(?:EnableGpuFirmware|EnableResizableBar|DmaRemapPeerMmio|GrdmaPciTopoCheckOverride): \d"),
    signal(0.6, r"\s*(?:ModifyDeviceFiles|DeviceFileMode|EnableMSI|EnablePCIeGen3|NvLinkDisable): \d"),
)
_OPTION = re.compile(r"\s*(?P<name>[A-Z]\w{2,60}): (?P<value>\d{1,20}|\"[^\"]{0,4000}\"?)\s*$")
SUPPLY = "give the content of /proc/driver/nvidia/params, of the guest"


class NvidiaParams(Frozen):
    """Options as the module shows them; names without ``NVreg_``."""

    options: dict[str, Mention]
    """By name; the text is the whole line."""

    def text(self, name: str) -> Maybe[Mention]:
        """Return an option's line; Unknown where the text does not have it."""
        return self.options.get(name) or Unknown(unknown=f"the text does not show {name}", supply=SUPPLY)


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[NvidiaParams]:
    """Return the options; Unknown where no line is one."""
    options: dict[str, Mention] = {}
    for number, line in enumerate(unquoted(text), 1):
        if match := _OPTION.match(line):
            options.setdefault(match["name"], Mention(line=number, text=line.strip()))
    if not options:
        return Unknown(unknown="it holds no option of the NVIDIA module", supply=SUPPLY)
    return NvidiaParams(options=options)
