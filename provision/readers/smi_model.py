"""What nvidia-smi says of the GPUs, in whichever form it was asked: table, list, CSV, ``-q`` or XML."""

from __future__ import annotations

import re
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.mention import Mention, Skipped

FACTS = (
    "name",
    "brand",
    "architecture",
    "uuid",
    "minor_number",
    "persistence",
    "addressing_mode",
    "mig",
    "virtualization",
    "host_vgpu",
    "gsp_firmware",
    "vbios",
    "device_id",
    "subsystem_id",
    "link_gen_current",
    "link_gen_max",
    "link_gen_gpu_max",
    "link_gen_host_max",
    "link_width_current",
    "link_width_max",
    "replays",
    "performance_state",
    "framebuffer_mib",
    "framebuffer_used_mib",
    "bar1_mib",
    "bar1_used_mib",
    "ecc",
    "ecc_uncorrected",
    "fabric_state",
    "fabric_status",
    "recovery_action",
    "temperature_c",
    "power_limit_w",
    "remap_failure",
    "reset_required",
)
"""Names of the facts of :class:`SmiGpu`.  A value is the text as printed; sizes are in MiB."""

ErrorKind = Literal[
    "no-devices", "no-driver", "version-mismatch", "not-installed", "gpu-lost", "reset-required", "other"
]

_NONE = frozenset({"", "n/a", "[n/a]", "[not supported]", "not supported", "err!", "[unknown error]", "unknown error"})
_NUMBER = re.compile(r"-?\d+")


class SmiGpu(Frozen):
    """One GPU in one output."""

    line: int
    """Where it begins."""
    index: int | None
    bdf: str | None
    """``0000:01:00.0``; ``None`` where an excerpt does not say which GPU it is about."""
    facts: dict[str, Mention]
    """By the names of ``FACTS``; what this version of the program does not print is not here."""

    def text(self, fact: str) -> Maybe[str]:
        """Return a fact as printed; Unknown where it was not printed or is N/A."""
        mention = self.facts.get(fact)
        if mention is None:
            return Unknown(unknown=f"nvidia-smi did not print {fact}", supply="give the output of: nvidia-smi -q")
        if mention.text.strip().lower() in _NONE:
            return Unknown(unknown=f"nvidia-smi says {mention.text or 'nothing'} for {fact}")
        return mention.text

    def number(self, fact: str) -> Maybe[int]:
        """Return the first whole number of a fact: ``16x`` is 16, ``131072 MiB`` is 131072."""
        text = self.text(fact)
        if isinstance(text, Unknown):
            return text
        match = _NUMBER.search(text)
        return int(match[0][:18]) if match else Unknown(unknown=f"{fact} is {text!r}, no number")

    def line_of(self, fact: str) -> int:
        return self.facts[fact].line if fact in self.facts else self.line

    @property
    def errors(self) -> tuple[str, ...]:
        """Facts whose value is ``ERR!`` or ``Unknown Error``: the GPU did not answer."""
        return tuple(
            name for name, mention in self.facts.items() if "ERR!" in mention.text or "Unknown Error" in mention.text
        )


class SmiError(Frozen):
    """A sentence that nvidia-smi printed instead of, or beside, an answer."""

    line: int
    text: str
    kind: ErrorKind
    bdf: str | None
    """The GPU that it names, ``0000:24:00.0``."""


class SmiReading(Frozen):
    """One output; an excerpt has what it has."""

    driver_version: Maybe[str]
    cuda_version: Maybe[str]
    attached: Maybe[int]
    """GPUs that the program counted, where it printed the number."""
    gpus: tuple[SmiGpu, ...]
    """In the order of the text; a text with two outputs names a GPU twice."""
    errors: tuple[SmiError, ...]
    skipped: tuple[Skipped, ...]
    is_cut: bool
    """Whether the output ends before its end."""

    @property
    def is_guest(self) -> bool:
        """Whether a GPU says that it is passed through to the machine that printed this."""
        return any(str(gpu.facts["virtualization"].text) == "Pass-Through" for gpu in self.gpus if _says(gpu))


def _says(gpu: SmiGpu) -> bool:
    return "virtualization" in gpu.facts


_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])")


def bdf_of(text: str) -> str | None:
    """Return the first bus id in ``text`` as Linux writes it: ``00000000:8D:00.0`` is ``0000:8d:00.0``."""
    match = _BUS_ID.search(text)
    if match is None:
        return None
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4].lower()}"


_ERRORS: tuple[tuple[ErrorKind, re.Pattern[str]], ...] = (
    ("no-devices", re.compile(r"\s*No devices were found", re.IGNORECASE)),
    ("no-driver", re.compile(r".{0,60}could.{1,3}t communicate with the NVIDIA driver")),
    ("version-mismatch", re.compile(r"\s*Failed to initialize NVML: Driver/library version mismatch")),
    ("not-installed", re.compile(r".{0,60}nvidia-smi: (?:command )?not found")),
    ("gpu-lost", re.compile(r".{0,160}GPU is lost")),
    ("reset-required", re.compile(r".{0,160}GPU requires reset")),
    ("other", re.compile(r"\s*Failed to initialize NVML: |\s*Unable to determine the device handle for ")),
    ("other", re.compile(r"\s*WARNING: infoROM is corrupted at gpu ")),
)


def error_of(line: int, text: str) -> SmiError | None:
    """Return the error that a line is, ``None`` for any other line."""
    for kind, form in _ERRORS:
        if form.match(text):
            return SmiError(line=line, text=text.strip(), kind=kind, bdf=bdf_of(text))
    return None


def is_error(text: str) -> bool:
    return error_of(1, text) is not None


NO_VERSION = Unknown(unknown="the text does not show it", supply="give the output of: nvidia-smi -q")
