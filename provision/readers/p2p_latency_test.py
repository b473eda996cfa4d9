"""``p2pBandwidthLatencyTest`` of the CUDA samples: who can access whom, and tables with and without P2P."""

from __future__ import annotations

import re
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import excerpt, unquoted
from provision.readers.mention import Skipped, SkippedLines
from provision.readers.number_matrix import MatrixLines, NumberMatrix
from provision.readers.signals import certainty, signal

_SIGNALS = (
    signal(0.95, r"\s*\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]"),
    signal(0.95, r"\s*(?:Uni|Bi)directional P2P=(?:Enabled|Disabled) Bandwidth .{0,20}Matrix"),
    signal(0.95, r"\s*P2P=(?:Enabled|Disabled) Latency .{0,20}Matrix"),
    signal(0.8, r"\s*Device=\d+ CAN(?:NOT)? Access Peer Device=\d+"),
    signal(0.8, r"\s*P2P Connectivity Matrix"),
)
_TITLE = re.compile(
    r"\s*(?P<title>(?:(?P<direction>Uni|Bi)directional )?P2P=(?P<p2p>Enabled|Disabled) (?P<what>Bandwidth|Latency)"
    r".{0,40}?Matrix)\s*(?:\((?P<unit>[^)]{1,8})\))?"
)
_DEVICE = re.compile(
    r"\s*Device: (?P<index>\d{1,3}), (?P<name>[^,]{1,80}), pciBusID: (?P<bus>[0-9a-fA-F]{1,2}), "
    r"pciDeviceID: (?P<device>[0-9a-fA-F]{1,2}), pciDomainID:\s?(?P<domain>[0-9a-fA-F]{1,8})"
)
_CAN = re.compile(r"\s*Device=(?P<one>\d{1,3}) (?P<can>CAN|CANNOT) Access Peer Device=(?P<other>\d{1,3})")
_ELLIPSIS = re.compile(r"\s*\.\.\.\s*$")


class TestedDevice(Frozen):
    line: int
    index: int
    name: str
    bdf: str


class PeerAccess(Frozen):
    """What the driver says before the test."""

    line: int
    one: int
    other: int
    can: bool


class PeerMatrix(Frozen):
    """One table, and what it measures."""

    what: Literal["bandwidth", "latency"]
    direction: Literal["uni", "bi", "none"]
    """``none`` for latency."""
    p2p: bool
    """Whether the program had switched P2P on.  That does not say that P2P was used."""
    matrix: NumberMatrix


class PeerTest(Frozen):
    devices: tuple[TestedDevice, ...]
    access: tuple[PeerAccess, ...]
    matrices: tuple[PeerMatrix, ...]
    """In the order of the text; several runs stand one after the other."""
    skipped: tuple[Skipped, ...]


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[PeerTest]:
    """Return the tables; Unknown where there is none, no device and no statement of access."""
    test = _Test()
    for number, line in enumerate(unquoted(text), 1):
        test.take(number, line)
    return test.answer()


class _Test:
    def __init__(self) -> None:
        self._devices: list[TestedDevice] = []
        self._access: list[PeerAccess] = []
        self._matrices: list[PeerMatrix] = []
        self._skipped = SkippedLines()
        self._title: re.Match[str] | None = None
        self._lines: MatrixLines | None = None

    def take(self, number: int, line: str) -> None:
        if match := _TITLE.match(line):
            self._end()
            self._title = match
            self._lines = MatrixLines(number, match["title"], match["unit"] or "")
        elif self._lines is not None and self._lines.take(number, line):
            return
        elif self._lines is not None and line.strip():
            if _ELLIPSIS.match(line):
                self._skipped.add(number, "rows were left out here")
            elif line.split(maxsplit=1)[0].isdecimal():
                self._skipped.add(number, f"a row that could not be read: {excerpt(line)!r}")
            self._end()
        self._statement(number, line)

    def _statement(self, number: int, line: str) -> None:
        if match := _DEVICE.match(line):
            domain, bus, device = (int(match[part], 16) for part in ("domain", "bus", "device"))
            bdf = f"{domain:04x}:{bus:02x}:{device:02x}.0"
            found = TestedDevice(line=number, index=int(match["index"]), name=match["name"], bdf=bdf)
            self._devices.append(found)
        elif match := _CAN.match(line):
            one, other = int(match["one"]), int(match["other"])
            self._access.append(PeerAccess(line=number, one=one, other=other, can=match["can"] == "CAN"))

    def _end(self) -> None:
        title, lines = self._title, self._lines
        self._title = self._lines = None
        matrix = lines.answer if lines is not None else None
        if title is None or matrix is None:
            return
        self._matrices.append(
            PeerMatrix(
                what="bandwidth" if title["what"] == "Bandwidth" else "latency",
                direction="none" if title["direction"] is None else ("uni" if title["direction"] == "Uni" else "bi"),
                p2p=title["p2p"] == "Enabled",
                matrix=matrix,
            )
        )

    def answer(self) -> Maybe[PeerTest]:
        self._end()
        if not (self._devices or self._access or self._matrices):
            return Unknown(
                unknown="it holds no table of this test", supply="give the output of p2pBandwidthLatencyTest"
            )
        return PeerTest(
            devices=tuple(self._devices),
            access=tuple(self._access),
            matrices=tuple(self._matrices),
            skipped=self._skipped.all,
        )
