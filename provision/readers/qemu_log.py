"""What is printed when a VM starts: QEMU's own lines, the end of a Proxmox task, and ``qm showcmd``."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, Skipped, SkippedLines
from provision.readers.signals import certainty, signal

_PROGRAM = r"(?:\S*/)?(?P<program>kvm|qemu-system-\w{1,20}|swtpm\w{0,20}|start failed|TASK (?:ERROR|WARNINGS|OK))"
_SIGNALS = (
    signal(0.95, r"\s*TASK (?:ERROR|OK|WARNINGS)\b"),
    signal(0.95, r"\s*(?:\S*/)?(?:kvm|qemu-system-\w{1,20}): (?:-\w|[a-zA-Z])"),
    signal(0.95, r".{0,120}PCI device mapping (?:invalid|not found)\b"),
    signal(0.9, r"\s*(?:start failed|stopped): (?:command|QEMU|got|org)\b"),
    signal(0.95, r"\s*(?:\S*/)?kvm (?:-id \d+|\\$)"),
    signal(0.8, r"\s*-device '?vfio-pci,host="),
    signal(0.8, r"\s*(?:no PCI device found for |cannot prepare PCI pass-through|could not find a free device for )"),
    signal(0.8, r"\s*(?:error writing '.{0,20}' to '/sys/bus/pci/|failed to reset PCI device|can't (?:un)?bind PCI )"),
    signal(0.7, r"\s*missing expected property\b"),
)
_LINE = re.compile(rf"\s*(?:\S+ \d+ [\d:]+ \S+ )?{_PROGRAM}(?:\[\d+\])?(?:: |\s|$)")
_OTHER = re.compile(
    r"\s*(?:PCI device mapping |missing expected property|no PCI device found|cannot prepare PCI|could not find a free"
    r"|error writing '|failed to reset PCI|can't (?:un)?bind PCI|device '|IOMMU not present|generating |volume deact"
    r"|timeout waiting|got timeout|can't lock file|mapping |WARN: |warning: |vfio[_ :-]|unable to |swtpm)",
    re.IGNORECASE,
)
_BDF = re.compile(r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7](?![0-9a-fA-F])")
_MAPPING_ROW = re.compile(
    r"\s*\|\s*`?(?P<name>[A-Za-z][\w-]{1,80})`?\s*\|\s*`?[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b"
)
"""A table that somebody wrote of mappings and their addresses."""
_ARGUMENT = re.compile(r"(?:^|\s)-device (?P<what>\S{1,2000}?):? ")
_START = re.compile(r"\s*(?:\S*/)?(?:kvm|qemu-system-\w{1,20}) (?:-|\\$)")
_VMID = re.compile(r"(?:^|\s)-id (\d{3,9})\b|\bVM (\d{3,9})\b|qmstart:(\d{3,9}):")
_END = re.compile(r"\s*TASK (?P<how>ERROR|OK|WARNINGS)(?::\s*(?P<why>.*))?")
_LONGEST = 65_536

Task = Literal["ok", "warnings", "error"]


class QemuMessage(Frozen):
    """One line that QEMU, a tool of Proxmox or the task printed."""

    line: int
    program: str
    """``kvm``, ``swtpm``, ``task`` ..., empty where the line does not say."""
    argument: str | None
    """The ``-device`` argument that it is about, ``vfio-pci,host=0000:01:00.0,id=hostpci0``."""
    bdf: str | None
    """The host's function that it names, ``0000:01:00.0``."""
    text: str


class TaskEnd(Frozen):
    line: int
    how: Task
    why: str


class QemuDevice(Frozen):
    """A ``-device`` of a command line."""

    line: int
    driver: str
    options: dict[str, str]

    @property
    def host(self) -> str | None:
        """The function that it passes through."""
        return self.options.get("host")


class QemuStart(Frozen):
    """One command line of QEMU."""

    line: int
    vmid: int | None
    words: tuple[Mention, ...]
    """Options and their values, each with its line."""
    devices: tuple[QemuDevice, ...]


class QemuLog(Frozen):
    vmid: int | None
    """The VM that the text names first."""
    messages: tuple[QemuMessage, ...]
    ends: tuple[TaskEnd, ...]
    starts: tuple[QemuStart, ...]
    mappings: tuple[str, ...]
    """Mappings that stand in a table beside the messages, which do not name theirs."""
    skipped: tuple[Skipped, ...]


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[QemuLog]:
    """Return the messages; Unknown where no line is one."""
    log = _Log()
    for number, line in enumerate(unquoted(text), 1):
        log.take(Mention(line=number, text=line[:_LONGEST]))
    return log.answer()


class _Log:
    def __init__(self) -> None:
        self._messages: list[QemuMessage] = []
        self._ends: list[TaskEnd] = []
        self._starts: list[QemuStart] = []
        self._skipped = SkippedLines()
        self._command: list[Mention] = []
        self._mappings: list[str] = []
        self._vmid: int | None = None

    def take(self, mention: Mention) -> None:
        if self._vmid is None and (match := _VMID.search(mention.text)):
            self._vmid = int(next(group for group in match.groups() if group))
        if self._command or _START.match(mention.text):
            self._command.append(mention)
            if not mention.text.rstrip().endswith("\\"):
                self._close_command()
            return
        self._message(mention)

    def _message(self, mention: Mention) -> None:
        if row := _MAPPING_ROW.match(mention.text):
            self._mappings.append(row["name"])
            return
        match = _LINE.match(mention.text)
        if match is None and not _OTHER.match(mention.text) and "PCI device mapping" not in mention.text:
            if mention.text.strip():
                self._skipped.add(mention.line, "no line of QEMU or of a task")
            return
        end = _END.match(mention.text)
        if end is not None:
            how: dict[str, Task] = {"ERROR": "error", "OK": "ok", "WARNINGS": "warnings"}
            self._ends.append(TaskEnd(line=mention.line, how=how[end["how"]], why=(end["why"] or "").strip()))
        program = match["program"] if match else ""
        self._messages.append(_message(mention, "task" if program.startswith("TASK") else program))

    def _close_command(self) -> None:
        start = _start(self._command)
        self._command = []
        self._starts.append(start)

    def answer(self) -> Maybe[QemuLog]:
        if self._command:
            self._close_command()
        if not self._messages and not self._starts:
            return Unknown(unknown="no line of it is one of a VM's start", supply="give the log of the start task")
        return QemuLog(
            vmid=self._vmid,
            messages=tuple(self._messages),
            ends=tuple(self._ends),
            starts=tuple(self._starts),
            mappings=tuple(dict.fromkeys(self._mappings)),
            skipped=self._skipped.all,
        )


def _message(mention: Mention, program: str) -> QemuMessage:
    argument = _ARGUMENT.search(mention.text)
    address = _BDF.search(mention.text)
    bdf = None if address is None else address[0].lower()
    return QemuMessage(
        line=mention.line,
        program=program,
        argument=argument["what"].rstrip(":") if argument else None,
        bdf=bdf if bdf is None or bdf.count(":") == 2 else f"0000:{bdf}",
        text=mention.text.strip(),
    )


def _start(lines: list[Mention]) -> QemuStart:
    words = [Mention(line=line.line, text=word) for line in lines for word in _words(line.text)]
    devices = []
    vmid = None
    for before, word in pairwise(words):
        if before.text == "-device" and not word.text.startswith("{"):
            driver, *options = word.text.split(",")
            values = dict(option.partition("=")[::2] for option in options)
            devices.append(QemuDevice(line=word.line, driver=driver, options=values))
        elif before.text == "-id" and word.text.isdecimal():
            vmid = int(word.text[:9])
    return QemuStart(line=lines[0].line, vmid=vmid, words=tuple(words), devices=tuple(devices))


def _words(line: str) -> list[str]:
    """Split as a shell does; a cut quote leaves the words between blanks."""
    text = line.rstrip().removesuffix("\\")
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
