"""NCCL's system and graph XML (``NCCL_TOPO_DUMP_FILE``, ``NCCL_TOPO_FILE``, ``NCCL_GRAPH_DUMP_FILE``).

A file that is given to NCCL states what NCCL is to believe, not what the machine has: bridges in domain ``ffff``
are made up, and links and classes may be missing.

Sources: NCCL's src/graph/xml.cc and src/graph/topo.h (the path types); RCCL writes ``xgmi`` in place of ``nvlink``.
"""

from __future__ import annotations

import re
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Skipped, SkippedLines
from provision.readers.signals import certainty, signal
from provision.readers.xml_scan import Element, scan

_SIGNALS = (
    signal(0.9, r"\s*<system version="),
    signal(0.9, r"\s*<graphs version="),
    signal(0.6, r"\s*<cpu (?:host_hash|numaid)="),
    signal(0.6, r"\s*<pci busid=\""),
    signal(0.4, r"\s*<graph id="),
)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")
_GPU_CLASSES = ("0x0300", "0x0302")
_ACCELERATOR = "0x1200"
_MADE_UP = "ffff:"
_LINKS = ("nvlink", "xgmi", "c2c")
NVIDIA = "0x10de"

PathClass = Literal["NVL", "PIX", "PXB", "PHB", "SYS"]


class Cpu(Frozen):
    line: int
    numa: str
    arch: str | None
    vendor: str | None


class Function(Frozen):
    """One ``pci`` element."""

    line: int
    bdf: str
    cls: str | None
    """``0x030200``; None where the file does not say."""
    vendor: str | None
    device: str | None
    numa: str | None
    """Of the ``cpu`` it stands in."""
    bridges: tuple[str, ...]
    """Bridges above it, the uppermost first."""
    is_gpu: bool
    """It has a ``gpu`` element, or the class of a GPU."""
    sm: int | None
    rank: int | None
    gdr: bool | None

    @property
    def is_made_up(self) -> bool:
        """Written by hand or by a cloud: no device has this domain."""
        return self.bdf.startswith(_MADE_UP)


class Link(Frozen):
    line: int
    kind: str
    """``nvlink``, ``xgmi`` or ``c2c``."""
    source: str
    target: str
    count: int


class Nic(Frozen):
    line: int
    name: str
    bdf: str | None
    speed: int | None
    """Mbit/s."""


class Graph(Frozen):
    line: int
    id: str
    attributes: tuple[tuple[str, str], ...]
    channels: int


class NcclTopology(Frozen):
    cpus: tuple[Cpu, ...]
    functions: tuple[Function, ...]
    links: tuple[Link, ...]
    nics: tuple[Nic, ...]
    graphs: tuple[Graph, ...]
    skipped: tuple[Skipped, ...]

    @property
    def gpus(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions if function.is_gpu)

    @property
    def made_up(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions if function.is_made_up)

    def path(self, one: Function, other: Function) -> PathClass:
        """Return NCCL's class of the path between two functions, as this file shows them."""
        if any({link.source, link.target} == {one.bdf, other.bdf} for link in self.links):
            return "NVL"
        if one.numa != other.numa:
            return "SYS"
        common = [mine for mine, theirs in zip(one.bridges, other.bridges, strict=False) if mine == theirs]
        if not common:
            return "PHB"
        below = max(len(one.bridges), len(other.bridges)) - len(common)
        return "PXB" if below else "PIX"


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[NcclTopology]:
    """Return what the file states; Unknown where it has neither a ``cpu``, a ``pci`` nor a ``graph`` element."""
    reader = _Reader()
    for element in scan("\n".join(unquoted(text))):
        if element.event == "begin":
            reader.begin(element)
        elif element.event == "end":
            reader.end(element)
    return reader.answer()


class _Reader:
    def __init__(self) -> None:
        self.cpus: list[Cpu] = []
        self.functions: list[Function] = []
        self.links: list[Link] = []
        self.nics: list[Nic] = []
        self.graphs: list[Graph] = []
        self.skipped = SkippedLines()
        self.numa: str | None = None
        self.open: list[int | None] = []
        """The ``pci`` elements that are open, by their place in ``functions``."""

    def begin(self, element: Element) -> None:
        name = element.path[-1]
        if name == "cpu":
            self._cpu(element)
        elif name == "pci":
            self.open.append(self._pci(element))
        elif name == "gpu":
            self._gpu(element)
        elif name in _LINKS:
            self._link(element)
        elif name == "net":
            self._net(element)
        elif name == "graph":
            words = element.attributes
            rest = tuple(words.items())
            self.graphs.append(Graph(line=element.line, id=words.get("id", ""), attributes=rest, channels=0))
        elif name == "channel" and self.graphs:
            self.graphs[-1] = self.graphs[-1].model_copy(update={"channels": self.graphs[-1].channels + 1})

    def end(self, element: Element) -> None:
        if element.path[-1] == "pci" and self.open:
            self.open.pop()
        elif element.path[-1] == "cpu":
            self.numa = None

    def _cpu(self, element: Element) -> None:
        words = element.attributes
        self.numa = words.get("numaid", "")
        found = Cpu(line=element.line, numa=self.numa, arch=words.get("arch"), vendor=words.get("vendor"))
        self.cpus.append(found)

    def _pci(self, element: Element) -> int | None:
        words = element.attributes
        bdf = words.get("busid", "").lower()
        if not _ADDRESS.match(bdf):
            self.skipped.add(element.line, "a pci element without an address")
            return None
        above = tuple(self.functions[place].bdf for place in self.open if place is not None)
        cls = words.get("class")
        accelerator = (cls or "").startswith(_ACCELERATOR)
        self.functions.append(
            Function(
                line=element.line,
                bdf=_short(bdf),
                cls=cls,
                vendor=words.get("vendor"),
                device=words.get("device"),
                numa=self.numa,
                bridges=above,
                is_gpu=(cls or "")[:6] in _GPU_CLASSES or accelerator,
                sm=None,
                rank=None,
                gdr=None,
            )
        )
        return len(self.functions) - 1

    def _here(self) -> int | None:
        return self.open[-1] if self.open else None

    def _gpu(self, element: Element) -> None:
        place = self._here()
        if place is None:
            return
        words = element.attributes
        gdr = words.get("gdr")
        update = {
            "is_gpu": True,
            "sm": _whole(words.get("sm")),
            "rank": _whole(words.get("rank")),
            "gdr": None if gdr is None else gdr == "1",
        }
        self.functions[place] = self.functions[place].model_copy(update=update)

    def _link(self, element: Element) -> None:
        place, words = self._here(), element.attributes
        count = _whole(words.get("count", "1"))
        if place is None or count is None or "target" not in words:
            self.skipped.add(element.line, "a link without its ends")
            return
        source, target = self.functions[place].bdf, _short(words["target"].lower())
        self.links.append(Link(line=element.line, kind=element.path[-1], source=source, target=target, count=count))

    def _net(self, element: Element) -> None:
        place, words = self._here(), element.attributes
        bdf = None if place is None else self.functions[place].bdf
        speed = _whole(words.get("speed"))
        self.nics.append(Nic(line=element.line, name=words.get("name", ""), bdf=bdf, speed=speed))

    def answer(self) -> Maybe[NcclTopology]:
        if not (self.cpus or self.functions or self.graphs):
            return Unknown(unknown="it has no element of NCCL's topology", supply="give the file whole")
        return NcclTopology(
            cpus=tuple(self.cpus),
            functions=tuple(self.functions),
            links=tuple(self.links),
            nics=tuple(self.nics),
            graphs=tuple(self.graphs),
            skipped=self.skipped.all,
        )


def _short(bdf: str) -> str:
    """Return the address with a domain of four digits where it fits."""
    domain, _colon, rest = bdf.partition(":")
    return f"{int(domain, 16):04x}:{rest}" if re.fullmatch(r"[0-9a-f]{1,8}", domain) else bdf


def _whole(word: str | None) -> int | None:
    return int(word) if word is not None and re.fullmatch(r"-?\d{1,9}", word) else None
