"""NCCL's own log (``NCCL_DEBUG=INFO`` or ``WARN``), with whatever a server or a launcher put in front of its lines.

Sources: NCCL's src/debug.cc (the form of a line), src/init.cc, src/transport/p2p.cc, shm.cc and net.cc, src/graph/.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from provision.evidence import Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention
from provision.readers.nccl_log_model import (
    Channels,
    Choice,
    Direct,
    NcclLog,
    RankInit,
    Setting,
    Speaker,
    Transport,
    Version,
)
from provision.readers.signals import certainty, signal

_SIGNALS = (
    signal(0.9, r".{0,300}?:\d{1,10}:\d{1,10} \[[-\w]{1,8}\] .{0,120}?NCCL (?:INFO|WARN)\b"),
    signal(0.7, r".{0,300}?\bNCCL (?:INFO|WARN) "),
    signal(0.6, r"NCCL version \d+\.\d+\.\d+"),
)
_LEVEL = re.compile(r"\bNCCL (?P<level>INFO|WARN) ")
_SPEAKER = re.compile(r"(?P<host>[^\s:]{1,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<device>-?\w{1,8})\]")
_VERSION = re.compile(r"NCCL version (?P<version>\d{1,3}(?:\.\d{1,3}){1,3}\S{0,30})")
_INIT = re.compile(
    r"comm 0x[0-9a-f]+ rank (?P<rank>\d+) n[rR]anks (?P<ranks>\d+) cudaDev (?P<device>\d+)(?: nvmlDev (?P<nvml>\d+))?"
    r" busId (?P<bus>[0-9a-f]+)(?: commId 0x(?P<job>[0-9a-f]+))?.{0,80}? - Init (?P<state>START|COMPLETE)"
)
_SETTING = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>.{0,300}?)\.?$")
_VIA = re.compile(
    r"Channel (?P<channel>\d+)(?:/\d+)? : (?P<source>\d+)\[\w+\] -> (?P<target>\d+)\[\w+\]"
    r"(?: \[(?P<side>send|receive)\])? via (?P<via>\S{1,60}(?: pointer)?)"
)
_DIRECT = re.compile(
    r"Check P2P Type isAllDirectP2p (?P<direct>\d) directMode (?P<mode>\d)(?: isAllCudaP2p (?P<cuda>\d))?"
)
_CHANNELS = re.compile(r"(?P<number>\d+) coll channels, .{0,80}?(?P<nvls>\d+) nvls channels")
_CHOICE = re.compile(r"(?P<collective>\w+): (?P<size>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)")
_GRAPH = re.compile(r"(?:Ring \d+ : |Tree \d+ : |Trees \[|Channel \d+/\d+ : +\d)")
_CONNECTED = re.compile(r"Connected (?:all|binomial|NVLS)? ?(?:rings|trees|tree)")
_TOPOLOGY = re.compile(r"Loading (?:topology file|static .{0,20}topology|unnamed topology)")
_PYTHON = re.compile(
    r"NCCL error in:|nccl(?:Unhandled|System|Internal|Invalid|Remote)\w*(?:Error|Usage)|unhandled (?:cuda|system) error"
    r"|Watchdog caught collective operation timeout"
)
_P2P_NOTE = re.compile(
    r"P2P is disabled between|Could not enable P2P|Failed to open P2P|CUDA[- ]?P2P .{0,40}?not supported"
)
_LONGEST = 4000
_MOST = 2000


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[NcclLog]:
    """Return what the log says; Unknown where no line of it is one of NCCL."""
    log = _Log()
    for number, line in enumerate(unquoted(text), 1):
        log.take(number, line[:_LONGEST])
    return log.answer()


def address(bus_id: str) -> str:
    """Return ``0000:17:00.0`` of ``17000``: domain, bus, device and function in one hexadecimal number."""
    number = int(bus_id, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"


class _Log:
    def __init__(self) -> None:
        self.of_nccl = self.graph_lines = self.other = 0
        self.versions: list[Version] = []
        self.ranks: dict[tuple[object, ...], RankInit] = {}
        self.settings: dict[tuple[str, str], Setting] = {}
        self.transports: dict[tuple[object, ...], Transport] = {}
        self.direct: list[Direct] = []
        self.channels: list[Channels] = []
        self.choices: dict[tuple[str, str, str, str], Choice] = {}
        self.said: dict[str, dict[str, Mention]] = {name: {} for name in ("warn", "error", "note", "topo", "connected")}
        self._forms: tuple[tuple[str, re.Pattern[str], Callable[[int, re.Match[str], Speaker | None], None]], ...] = (
            (" via ", _VIA, self._transport),
            ("- Init", _INIT, self._init),
            ("set by environment", _SETTING, self._setting),
            ("NCCL version", _VERSION, self._version),
            ("isAllDirect", _DIRECT, self._direct),
            ("coll channels", _CHANNELS, self._channels),
            ("-> Algo", _CHOICE, self._choice),
        )

    def take(self, number: int, line: str) -> None:
        level = _LEVEL.search(line)
        if level is None:
            self._outside(number, line)
            return
        self.of_nccl += 1
        speaker = _speaker(line[max(0, level.start() - 500) : level.start()])
        text = line[level.end() :]
        if level["level"] == "WARN":
            self._say("warn", number, line)
        elif not self._of_form(number, text, speaker):
            self._other(number, line, text)

    def _outside(self, number: int, line: str) -> None:
        """Lines without NCCL's prefix: the version alone, and what programs say of a failed call."""
        if line.lstrip().startswith("NCCL version"):
            self.of_nccl += 1
            self._of_form(number, line, None)
        elif _PYTHON.search(line):
            self._say("error", number, line)

    def _of_form(self, number: int, text: str, speaker: Speaker | None) -> bool:
        for words, form, use in self._forms:
            if words in text and (match := form.search(text)):
                use(number, match, speaker)
                return True
        return False

    def _other(self, number: int, line: str, text: str) -> None:
        if _GRAPH.match(text):
            self.graph_lines += 1
        elif _CONNECTED.match(text):
            self._say("connected", number, line)
        elif _TOPOLOGY.match(text):
            self._say("topo", number, line)
        elif _P2P_NOTE.search(text):
            self._say("note", number, line)
        elif _PYTHON.search(text):
            self._say("error", number, line)
        else:
            self.other += 1

    def _say(self, kind: str, number: int, line: str) -> None:
        mentions = self.said[kind]
        text = line.strip()
        level = _LEVEL.search(text)
        key = text[level.end() :] if level else text
        if len(mentions) < _MOST:
            mentions.setdefault(key, Mention(line=number, text=text))

    def _version(self, number: int, match: re.Match[str], speaker: Speaker | None) -> None:
        if len(self.versions) < _MOST:
            self.versions.append(Version(line=number, version=match["version"], speaker=speaker))

    def _init(self, number: int, match: re.Match[str], speaker: Speaker | None) -> None:
        rank, ranks = int(match["rank"]), int(match["ranks"])
        where = (speaker.host, speaker.pid) if speaker else (None, None)
        key = (rank, ranks, match["bus"], match["job"], where)
        known = self.ranks.get(key)
        done = number if match["state"] == "COMPLETE" else None
        if known is not None:
            self.ranks[key] = known.model_copy(update={"completed": known.completed or done})
            return
        self.ranks[key] = RankInit(
            line=number,
            rank=rank,
            ranks=ranks,
            device=int(match["device"]),
            bdf=address(match["bus"]),
            job=match["job"],
            host=where[0],
            pid=where[1],
            completed=done,
        )

    def _setting(self, number: int, match: re.Match[str], _speaker: Speaker | None) -> None:
        found = Setting(line=number, name=match["name"], value=match["value"])
        self.settings.setdefault((found.name, found.value), found)

    def _transport(self, number: int, match: re.Match[str], speaker: Speaker | None) -> None:
        if match["side"] == "receive":
            return
        host = speaker.host if speaker else None
        key = (match["source"], match["target"], match["via"], host)
        known = self.transports.get(key)
        self.transports[key] = Transport(
            line=known.line if known else number,
            source=int(match["source"]),
            target=int(match["target"]),
            via=match["via"],
            channels=known.channels + 1 if known else 1,
            host=host,
        )

    def _direct(self, number: int, match: re.Match[str], _speaker: Speaker | None) -> None:
        cuda = None if match["cuda"] is None else match["cuda"] == "1"
        self.direct.append(Direct(line=number, all_direct=match["direct"] == "1", all_cuda=cuda))

    def _channels(self, number: int, match: re.Match[str], _speaker: Speaker | None) -> None:
        found = Channels(line=number, collective=int(match["number"]), nvls=int(match["nvls"]))
        self.channels.append(found)

    def _choice(self, number: int, match: re.Match[str], _speaker: Speaker | None) -> None:
        words = (match["collective"], match["size"], match["algorithm"], match["protocol"])
        choice = Choice(line=number, collective=words[0], bytes=int(words[1]), algorithm=words[2], protocol=words[3])
        self.choices.setdefault(words, choice)

    def answer(self) -> Maybe[NcclLog]:
        if not self.of_nccl and not self.said["error"]:
            return Unknown(unknown="no line of it is one of NCCL", supply="run the program with NCCL_DEBUG=INFO")
        mentions = {kind: tuple(said.values()) for kind, said in self.said.items()}
        return NcclLog(
            versions=tuple(self.versions),
            ranks=tuple(self.ranks.values()),
            settings=tuple(self.settings.values()),
            transports=tuple(self.transports.values()),
            direct=tuple(self.direct[:_MOST]),
            channels=tuple(self.channels[:_MOST]),
            choices=tuple(self.choices.values()),
            warnings=mentions["warn"],
            errors=mentions["error"],
            notes=mentions["note"],
            topology_files=mentions["topo"],
            graph_lines=self.graph_lines,
            connected=mentions["connected"],
            other_lines=self.other,
        )


def _speaker(before: str) -> Speaker | None:
    found = None
    for match in _SPEAKER.finditer(before):
        found = match
    if found is None:
        return None
    return Speaker(host=found["host"], pid=int(found["pid"]), device=found["device"])
