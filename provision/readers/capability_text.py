"""Capabilities of one device as lspci prints them: which there are, and the text of their registers.

``-v`` names them, ``-vv`` shows their registers, and without root there is ``<access denied>``: then
nothing is known, which is not "not there".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from provision.evidence import Maybe, Unknown
from provision.pci.model import PortType

AS_ROOT = "add the output of: lspci -Dnnvvvx, run as root"
ADD_DUMP = "add the output of: lspci -Dnnxxxx, run as root"

_TITLE = re.compile(r"^\s*Capabilities: \[(?P<offset>[0-9a-fA-F]{2,3})(?: v\d+)?\]\s*(?P<title>.*)$")
_EXPRESS = re.compile(r"^\s*(?:Express )(?:\(v\d+\) )?(?P<type>[A-Z].*)$")
_FLAG = re.compile(r"(?P<name>[A-Za-z]+)(?P<sign>[+-])(?=[\s,]|$)")
_TYPES: tuple[tuple[str, PortType], ...] = (
    ("Endpoint", "endpoint"),
    ("Legacy Endpoint", "legacy-endpoint"),
    ("Root Port", "root-port"),
    ("Upstream Port", "upstream-port"),
    ("Downstream Port", "downstream-port"),
    ("PCI-Express to PCI/PCI-X Bridge", "pcie-to-pci-bridge"),
    ("PCI/PCI-X to PCI-Express Bridge", "pci-to-pcie-bridge"),
    ("Root Complex Integrated Endpoint", "integrated-endpoint"),
    ("Root Complex Event Collector", "event-collector"),
)
_ASLEEP = Unknown(
    unknown="the device answers all ones: it is asleep or off the bus",
    supply="wake the device (start or stop what uses it) and run lspci -vvv as root again",
)
_BROKEN_CHAIN = Unknown(
    unknown="lspci could not follow the list of capabilities to its end",
    supply="wake or reset the device and run lspci -vvv as root again",
)


@dataclass
class Capability:
    offset: int
    title: str
    lines: list[str] = field(default_factory=list)

    @property
    def is_extended(self) -> bool:
        return self.offset >= 0x100


@dataclass(frozen=True)
class Device:
    """What decides how the lines of one device are read."""

    lines: tuple[str, ...]
    vendor: int
    device: int
    is_asleep: bool
    is_bridge: bool | None
    """None where the class is not known."""
    sees_extended: bool
    """Some device of the same text shows an extended capability: where one shows none, it has none."""


def split_capabilities(lines: Iterable[str]) -> list[Capability]:
    """Return the capabilities with the lines that stand below each."""
    found: list[Capability] = []
    for line in lines:
        title = _TITLE.match(line)
        if title is not None:
            found.append(Capability(int(title["offset"], 16), title["title"].strip()))
        elif found:
            found[-1].lines.append(line)
    return found


class CapabilityText:
    """The capabilities of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.caps = split_capabilities(device.lines)
        self.text = "\n".join(device.lines)

    def missing(self) -> Unknown | None:
        """Why the list of capabilities says nothing of what is not in it; None where it is whole."""
        if self.device.is_asleep:
            return _ASLEEP
        if "<access denied>" in self.text:
            return Unknown(unknown="lspci was not run as root: it shows <access denied>", supply=AS_ROOT)
        if re.search(r"<chain (?:looped|broken)>|Capabilities:.*<unreadable>", self.text):
            return _BROKEN_CHAIN
        status = re.search(r"^\s*Status: Cap(?P<sign>[+-])", self.text, re.MULTILINE)
        if self.caps or (status is not None and status["sign"] == "-"):
            return None
        return Unknown(unknown="the text shows no capabilities of this device", supply=AS_ROOT)

    def _missing_extended(self) -> Unknown | None:
        missing = self.missing()
        if missing is not None or self.express() is None:
            return missing
        if self.device.sees_extended:
            return None
        return Unknown(
            unknown="no device of the text shows an extended capability: lspci may not have been able to read them",
            supply=AS_ROOT,
        )

    def find(self, *titles: str, extended: bool) -> Capability | Unknown | None:
        """Return the capability, None where the list is whole without it."""
        found = next((cap for cap in self.caps if cap.is_extended is extended and cap.title.startswith(titles)), None)
        return found or (self._missing_extended() if extended else self.missing())

    def express(self) -> Maybe[PortType | None]:
        """Return the port type; None for a conventional device."""
        for title in (*(cap.title for cap in self.caps), *self.device.lines):
            match = _EXPRESS.match(title)
            if match is not None:
                return _port_type(match["type"])
        return self.missing()

    def registers(self, cap: Capability, name: str) -> str | None:
        """Return the text of a register with the lines that go on with it: up to the next ``Name:``."""
        text: list[str] = []
        for line in cap.lines:
            if text and re.match(r"^\s*[A-Z][A-Za-z0-9]+:", line):
                break
            if text or re.match(rf"^\s*{name}:", line):
                text.append(line)
        return " ".join(text) or None

    def of_express(self, name: str) -> Maybe[str]:
        """Return the text of a register of the PCI Express capability."""
        cap = next((cap for cap in self.caps if _EXPRESS.match(cap.title)), None)
        text = self.registers(cap, name) if cap else None
        if text is not None:
            return text
        missing = self.missing()
        return missing or Unknown(unknown=f"the text does not show {name}", supply=AS_ROOT)


def flags(text: str) -> dict[str, bool]:
    """Return ``Name+`` and ``Name-`` as True and False."""
    return {match["name"]: match["sign"] == "+" for match in _FLAG.finditer(text)}


def _port_type(text: str) -> Maybe[PortType]:
    for name, kind in _TYPES:
        if text == name or text.startswith((f"{name} ", f"{name},")):
            return kind
    return Unknown(unknown=f"lspci calls the port {text.partition(',')[0]!r}", supply=ADD_DUMP)
