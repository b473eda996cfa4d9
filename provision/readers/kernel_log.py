"""Kernel logs of hosts and guests, in every form that people paste.

dmesg with and without times, ``-T``, ISO, ``--decode``; ``journalctl -k`` (short, ISO, precise, monotonic,
verbose, JSON; months in many languages); syslog and kern.log; pstore dumps; /dev/kmsg records; serial consoles;
CRLF; mail with quotes and hard wraps.  Three outcomes: read; read with parts left out (``skipped`` says what);
``Unknown`` where no line is a kernel's.  Never raises; memory is bounded, work is linear in the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.document import Origin
from provision.readers.kernel_log_facts import FactWatch, KernelFacts
from provision.readers.kernel_log_join import messages
from provision.readers.kernel_log_keep import Keeper
from provision.readers.kernel_log_origin import OriginWatch
from provision.readers.kernel_log_prefix import KERNEL, Form, head
from provision.readers.kernel_log_record import Record
from provision.readers.lines import excerpt

_FIRST = 400
"""Lines that :func:`recognize` looks at."""
_VIRTUALIZATION = frozenset(
    {KERNEL, "QEMU", "kvm", "qm", "pvedaemon", "pvestatd", "pveproxy", "pve-guests", "user", "dmesg"}
)
"""Processes whose messages count beside the kernel's own; all others are left out."""
_SIGNS = re.compile(
    r"NVRM: (?!version)|DMAR(?:-IR)?: |AMD-Vi: |vfio-pci [0-9a-f]{4}:|pcieport [0-9a-f]{4}:|\bpci "
    r"[0-9a-f]{4}:[0-9a-f]{2}:"
    r"|nvidia [0-9a-f]{4}:[0-9a-f]{2}:|vfio_ecap_init|Linux version \d|Kernel command line: |Hypervisor detected: "
    r"|nvidia-(?:nvlink|uvm|modeset|nvswitch\d?): |segfault at [0-9a-f]+ ip |irq \d+: nobody cared|kernel BUG at "
    r"|vfio_bar_restore|(?:Linux|[Kk]ernel) (?:cmdline|command line): \S|Adding to iommu group \d|"
    r"^(?:Panic|Oops)#\d+ Part\d+"
)
_MACHINE_FORMS = frozenset({"dmesg", "kmsg", "printk"})


class Boot(Frozen):
    """One boot of the machine."""

    number: int
    line: int
    """Line of its first message."""
    kernel: Maybe[str]
    """Release: ``6.8.12-4-pve``."""


class KernelLog(Frozen):
    """A log as it was read.  Lines count from 1 in the text that was given."""

    records: tuple[Record, ...]
    """In the order of the text; of many that differ only in numbers the first eight, then a count."""
    boots: tuple[Boot, ...]
    origin: Origin
    forms: tuple[Form, ...]
    """The forms of its lines, as they were met."""
    facts: KernelFacts
    lines: int
    skipped: tuple[str, ...]
    """What was left out, and why."""


def recognize(text: str) -> float:
    """Return how sure it is that this is a kernel log, from 0 to 1; looks at the first 400 lines."""
    lines = text[:60_000].split("\n", _FIRST)[:_FIRST]
    marked = [head(line[:400].lstrip("> ").rstrip("\r")) for line in lines if line.strip()]
    if not marked:
        return 0.0
    kernel = sum(one.form in _MACHINE_FORMS or (one.form != "plain" and one.process == KERNEL) for one in marked)
    signs = sum(_SIGNS.search(one.text) is not None for one in marked)
    if not signs and kernel < 3:
        return 0.0
    return min(1.0, 0.4 * (signs > 0) + 0.1 * min(signs, 3) + 0.6 * kernel / len(marked))


def read(text: str) -> Maybe[KernelLog]:
    """Read a log that is at hand as text."""
    return read_lines(text.split("\n"))


def read_lines(lines: Iterable[str]) -> Maybe[KernelLog]:
    """Read a log line by line, in bounded memory; for files of any length."""
    reading = _Reading()
    for record in reading.numbered(lines):
        reading.take(record)
    return reading.result()


def events(lines: Iterable[str]) -> Iterator[Record]:
    """Yield every message of the kernel (and of QEMU and Proxmox, where a journal has them) with its boot.

    The core of the reader: nothing is counted together or left out, one message is held at a time.
    """
    boots = _Boots()
    for record in messages(lines):
        if record.process in _VIRTUALIZATION:
            yield boots.place(record)


class _Boots:
    """Numbers the boots: each begins with the kernel's first words, or where the journal draws a line."""

    def __init__(self) -> None:
        self.found: list[Boot] = []
        self._is_fresh = True

    def place(self, record: Record) -> Record:
        if record.text.startswith("Linux version "):
            if not self._is_fresh:
                self._open(record)
            self._close_head(record)
        elif record.form == "plain" and record.text.startswith(("-- Boot ", "-- Reboot --")):
            self._is_fresh = True
            self._open(record)
        elif not self.found:
            self._open(record)
        else:
            self._is_fresh = self._is_fresh and record.form == "plain"
        return replace(record, boot=len(self.found) - 1) if len(self.found) > 1 else record

    def _open(self, record: Record) -> None:
        unknown = Unknown(unknown="the log does not begin with the kernel's version", supply="dmesg from the boot on")
        self.found.append(Boot(number=len(self.found), line=record.line, kernel=unknown))

    def _close_head(self, record: Record) -> None:
        """Give the newest boot its release; the first boot may have none yet."""
        if not self.found:
            self._open(record)
        release = record.text.split(" ", 3)[2]
        self.found[-1] = self.found[-1].model_copy(update={"kernel": release})
        self._is_fresh = False


class _Reading:
    def __init__(self) -> None:
        self._keeper, self._origin, self._facts = Keeper(), OriginWatch(), FactWatch()
        self._boots = _Boots()
        self._forms: dict[Form, None] = {}
        self._others = 0
        self._lines = 0
        self._first_text = ""
        self._has_sign = False

    def numbered(self, lines: Iterable[str]) -> Iterator[Record]:
        return messages(self._counted(lines))

    def _counted(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._lines += 1
            yield line

    def take(self, record: Record) -> None:
        self._first_text = self._first_text or record.text
        self._forms.setdefault(record.form)
        if record.process == "systemd" or record.process not in _VIRTUALIZATION:
            self._origin.see(record.text)
            self._others += 1
            return
        if record.form == "plain" and not self._has_sign:
            self._has_sign = _SIGNS.search(record.text) is not None
        placed = self._boots.place(record)
        self._origin.see(placed.text)
        self._facts.see(placed)
        self._keeper.take(placed)

    def result(self) -> Maybe[KernelLog]:
        if not self._has_sign and not any(form != "plain" for form in self._forms):
            shown = excerpt(self._first_text) or "nothing"
            return Unknown(
                unknown=f"no line is a message of a kernel (it begins with {shown!r})",
                supply="dmesg, or journalctl -k -b",
            )
        return KernelLog(
            records=self._keeper.records(),
            boots=tuple(self._boots.found),
            origin=self._origin.origin(),
            forms=tuple(self._forms),
            facts=self._facts.result(),
            lines=self._lines,
            skipped=tuple(self._skipped()),
        )

    def _skipped(self) -> Iterator[str]:
        if self._others:
            yield f"{self._others} messages of other processes"
        if self._keeper.dropped:
            yield f"{self._keeper.dropped} messages beyond the number that is kept"
