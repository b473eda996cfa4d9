"""What ``nvidia-smi`` prints for people and scripts: its table, ``-L``, CSV, ``--version``, and its errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provision.evidence import Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, SkippedLines
from provision.readers.signals import HEAD_LINES, certainty, signal
from provision.readers.smi_csv import CsvRows, is_header, is_list_line, is_row
from provision.readers.smi_model import NO_VERSION, SmiError, SmiGpu, SmiReading, bdf_of, error_of, is_error

_SIGNALS = (
    signal(0.95, r"\s*\|\s*NVIDIA-SMI\s+[\d.]+\s"),
    signal(0.9, r"\s*\|\s*\d+\s+.{3,40}\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s"),
    signal(0.9, r"\s*NVIDIA-SMI version\s+: \d"),
)
_VERSIONS = re.compile(
    r"\|?\s*NVIDIA-SMI\s+(?P<tool>[\w.]+)"
    r"(?:\s+(?:Driver|KMD) Version:\s*(?P<driver>[\w./]+))?(?:\s+CUDA (?:UMD )?Version:\s*(?P<cuda>[\w./]+))?"
)
_FIRST = re.compile(r"\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s*$")
_PERSISTENCE = re.compile(r"\s+(On|Off|N/A|ERR!)$")
_MEMORY = re.compile(r"\s*(?P<used>\d+)\s*MiB\s*/\s*(?P<total>\d+)\s*MiB\s*$")
_POWER = re.compile(r"(\d+)\s*W\s*/\s*(\d+)\s*W")
_STATE = re.compile(r"\bP\d{1,2}\b")
_ABOUT = re.compile(r"(?P<name>NVIDIA-SMI|DRIVER|KMD|CUDA|CUDA UMD) version\s+: (?P<value>\d[\w.]*)")


def recognize(text: str) -> float:
    """A table, a list, CSV or nothing but an error: the last counts where it begins a line."""
    lines = text.split("\n", HEAD_LINES)[:HEAD_LINES]
    if any(is_error(line) for line in lines):
        return 0.9
    if any(is_list_line(line) or is_header(line) or is_row(line) for line in lines):
        return 0.9
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[SmiReading]:
    """Return the GPUs; Unknown where no line has a form of this program."""
    table = _Table()
    for number, line in enumerate(unquoted(text), 1):
        table.take(number, line.rstrip())
    return table.answer()


class _Table:
    def __init__(self) -> None:
        self._gpus: list[SmiGpu] = []
        self._rows = CsvRows()
        self._errors: list[SmiError] = []
        self._skipped = SkippedLines()
        self._driver: str | None = None
        self._cuda: str | None = None
        self._open: SmiGpu | None = None
        self._row = 0
        self._in_table = False

    def take(self, number: int, line: str) -> None:
        error = error_of(number, line)
        if error is not None:
            self._errors.append(error)
        elif line.lstrip().startswith("|"):
            self._table_line(number, line.strip())
        elif match := _ABOUT.match(line.strip()):
            self._about(match["name"], match["value"])
        elif not line.strip().startswith("+"):
            self._rows.take(number, line)
        else:
            self._open = None

    def _about(self, name: str, value: str) -> None:
        if name in ("DRIVER", "KMD"):
            self._driver = self._driver or value
        elif name.startswith("CUDA"):
            self._cuda = self._cuda or value

    def _table_line(self, number: int, line: str) -> None:
        match = _VERSIONS.match(line)
        if match is not None:
            self._driver, self._cuda = match["driver"] or self._driver, match["cuda"] or self._cuda
            self._in_table = True
            return
        cells = line.strip("|").split("|")
        if len(cells) == 3 and bdf_of(cells[1]) and (first := _FIRST.match(cells[0])):
            self._begin(number, first, cells)
        elif self._open is not None and len(cells) == 3:
            self._goes_on(number, cells)

    def _begin(self, number: int, first: re.Match[str], cells: Sequence[str]) -> None:
        name = first["name"]
        persistence = _PERSISTENCE.search(name)
        facts = {"name": name[: persistence.start()] if persistence else name, "ecc_uncorrected": cells[2].strip()}
        if persistence:
            facts["persistence"] = persistence[1]
        self._open = SmiGpu(
            line=number,
            index=int(first["index"]),
            bdf=bdf_of(cells[1]),
            facts={key: Mention(line=number, text=value) for key, value in facts.items()},
        )
        self._gpus.append(self._open)
        self._row = 1

    def _goes_on(self, number: int, cells: Sequence[str]) -> None:
        """The second line of a GPU has power and memory, the third MIG."""
        self._row += 1
        facts: dict[str, str] = {}
        if self._row == 2:
            facts = _second_line(cells)
        elif self._row == 3 and cells[2].strip():
            facts = {"mig": cells[2].strip().rstrip("*")}
        if self._open is not None:
            self._open.facts.update({key: Mention(line=number, text=value) for key, value in facts.items()})

    def answer(self) -> Maybe[SmiReading]:
        gpus = (*self._gpus, *self._rows.gpus)
        if not gpus and not self._errors and self._driver is None:
            return Unknown(unknown="no line of it is one of nvidia-smi", supply="give the output of: nvidia-smi")
        return SmiReading(
            driver_version=self._driver or self._rows.driver or NO_VERSION,
            cuda_version=self._cuda or NO_VERSION,
            attached=NO_VERSION,
            gpus=gpus,
            errors=tuple(self._errors),
            skipped=self._skipped.all,
            is_cut=self._in_table and not self._gpus and not self._errors,
        )


def _second_line(cells: Sequence[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    memory, power, state = _MEMORY.match(cells[1]), _POWER.search(cells[0]), _STATE.search(cells[0])
    if memory is not None:
        facts["framebuffer_used_mib"], facts["framebuffer_mib"] = memory["used"], memory["total"]
    if power is not None:
        facts["power_limit_w"] = power[2]
    if state is not None:
        facts["performance_state"] = state[0]
    if "ERR!" in cells[0] or "ERR!" in cells[1]:
        facts.setdefault("temperature_c", "ERR!")
    return facts
