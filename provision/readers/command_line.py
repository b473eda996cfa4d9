"""A kernel command line: /proc/cmdline, /etc/kernel/cmdline, or its line in a mail."""

from __future__ import annotations

import re

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention

_MOST_LINES = 8
"""Lines that a terminal makes of a long command line; more is another thing."""
_LONGEST = 8192
_SURE = re.compile(r"(?:BOOT_IMAGE|initrd|root)=\S")
_PARAMETERS = re.compile(
    r"(?:quiet|nomodeset|splash|(?:intel_|amd_)?iommu=\S+|pcie_acs_override=\S+|vfio[-_]pci\.\w+=\S+|video=\S+"
    r"|(?:default_)?hugepages(?:z=\S+|=\S+)|initcall_blacklist=\S+|kvm[._]\S+|pcie_\w+=\S+|pci=\S+|isolcpus=\S+"
    r"|nouveau\.modeset=\d|mitigations=\S+|module_blacklist=\S+|modprobe\.blacklist=\S+)"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*(?:=\S*)?|--")


class CommandLine(Frozen):
    """The words that the kernel was or will be given."""

    text: str
    """On one line."""
    statements: tuple[Mention, ...]
    """The lines as they stood."""

    @property
    def is_running(self) -> bool:
        """Whether a boot loader has added its own words: this is what a kernel was started with."""
        return re.search(r"(?:^|\s)(?:BOOT_IMAGE|initrd)=", self.text) is not None


def recognize(text: str) -> float:
    """A few lines that hold nothing but parameters."""
    lines = _lines(text)
    words = [word for line in lines for word in line.text.split()]
    if not words or len(lines) > _MOST_LINES or sum(len(word) for word in words) > _LONGEST:
        return 0.0
    known = sum(1 for word in words if _SURE.match(word) or _PARAMETERS.fullmatch(word))
    strange = sum(1 for word in words if not _WORD.fullmatch(word.replace('"', "")))
    if not known or strange * 10 > len(words) + 9:
        return 0.0
    if any(_SURE.match(word) for word in words):
        return 0.95
    return 0.7 if known * 2 >= len(words) else 0.3


def read(text: str) -> Maybe[CommandLine]:
    """Return the parameters of all lines as one; a terminal may have wrapped them."""
    lines = _lines(text)
    if not lines:
        return Unknown(unknown="it is empty", supply="give /proc/cmdline")
    if len(lines) > _MOST_LINES:
        return Unknown(unknown="it has too many lines for a command line", supply="give /proc/cmdline alone")
    return CommandLine(text=" ".join(line.text for line in lines), statements=tuple(lines))


_PREFIX = re.compile(r"^(?:(?:Kernel )?[Cc]ommand line|cmdline):\s*")


def _lines(text: str) -> list[Mention]:
    """The lines with words on them, without what a log or a person put in front."""
    kept = []
    for number, raw in enumerate(unquoted(text), 1):
        line = _PREFIX.sub("", raw.strip())
        if line and not line.startswith("#"):
            kept.append(Mention(line=number, text=line))
            if len(kept) > _MOST_LINES:
                break
    return kept
