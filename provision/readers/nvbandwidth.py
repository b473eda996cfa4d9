"""``nvbandwidth``: its text and its JSON (``-j``)."""

from __future__ import annotations

import re
from typing import Any, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.json_text import values
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, Skipped, SkippedLines
from provision.readers.number_matrix import MatrixLines, NumberMatrix
from provision.readers.signals import certainty, signal

_SIGNALS = (
    signal(0.95, r"\s*nvbandwidth Version: v?\d"),
    signal(0.9, r"\s*Running (?:host|device|all|one)_\w+\.\s*$"),
    signal(0.8, r"\s*SUM \w+_(?:ce|sm)\s"),
    signal(0.95, r"\s*\"?nvbandwidth\"\s*:\s*\{"),
    signal(0.8, r"\s*memcpy (?:CE|SM) (?:CPU|GPU)\(row\) "),
    signal(0.9, r"\s*\{\s*\"nvbandwidth\"\s*:"),
)
_VERSION = re.compile(r"\s*nvbandwidth Version: (v?\S{1,30})")
_ABOUT = re.compile(r"\s*(CUDA Runtime Version|CUDA Driver Version|Driver Version): (\S{1,40})")
_DEVICE = re.compile(
    r"\s*Device (?P<index>\d{1,3}): (?P<name>[^(\n]{1,80}?)\s*(?:\((?P<bus>[0-9A-Fa-f:.]{4,16})\))?\s*$"
)
_RUNNING = re.compile(r"\s*Running (\w{1,100})\.\s*$")
_TITLE = re.compile(r"\s*(?P<title>(?:memcpy|memory|Device|device|multicast).{0,120}?)\s*\((?P<unit>GB/s|ns|us)\)\s*$")
_SUM = re.compile(r"\s*SUM (\w{1,100}) (\d{1,12}(?:\.\d{1,9})?)")
_STATUS = re.compile(r"\s*(?P<status>WAIVED|Waived|ERROR|Error|FAILED)\b.{0,200}")

_MOST_CASES = 200

Status = Literal["passed", "waived", "error"]


class BandwidthTest(Frozen):
    """One test case."""

    line: int
    name: str
    """``device_to_device_memcpy_read_ce``."""
    matrix: NumberMatrix | None
    sum: float | None
    """GB/s over all pairs, as printed."""
    status: Status
    words: str = ""
    """What the program says where it did not pass."""


class Nvbandwidth(Frozen):
    version: Maybe[str]
    driver_version: Maybe[str]
    devices: tuple[Mention, ...]
    tests: tuple[BandwidthTest, ...]
    skipped: tuple[Skipped, ...]


NOT_SHOWN = Unknown(unknown="the text does not show it", supply="give the whole output of nvbandwidth")


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[Nvbandwidth]:
    """Return the tests; Unknown where the text has none and no version."""
    lines = unquoted(text)
    in_json = _of_json("\n".join(lines))
    if in_json is not None:
        return in_json
    run = _Run()
    for number, line in enumerate(lines, 1):
        run.take(number, line)
    return run.answer()


class _Run:
    def __init__(self) -> None:
        self._version: str | None = None
        self._driver: str | None = None
        self._devices: list[Mention] = []
        self._tests: list[BandwidthTest] = []
        self._skipped = SkippedLines()
        self._lines: MatrixLines | None = None

    def take(self, number: int, line: str) -> None:
        if self._lines is not None and self._lines.take(number, line):
            return
        self._close_matrix()
        if match := _VERSION.match(line):
            self._version = match[1]
        elif match := _ABOUT.match(line):
            self._driver = match[2] if match[1] == "Driver Version" else self._driver
        elif match := _RUNNING.match(line):
            self._tests.append(BandwidthTest(line=number, name=match[1], matrix=None, sum=None, status="passed"))
        elif _DEVICE.match(line):
            self._devices.append(Mention(line=number, text=line.strip()))
        else:
            self._of_test(number, line)

    def _of_test(self, number: int, line: str) -> None:
        if match := _TITLE.match(line):
            if not self._tests or self._tests[-1].matrix is not None:
                unnamed = BandwidthTest(line=number, name=match["title"], matrix=None, sum=None, status="passed")
                self._tests.append(unnamed)
            self._lines = MatrixLines(number, match["title"], match["unit"])
        elif match := _SUM.match(line):
            self._change({"sum": float(match[2])}, name=match[1])
        elif match := _STATUS.match(line):
            status: Status = "waived" if match["status"].lower() == "waived" else "error"
            self._change({"status": status, "words": line.strip()[:200]})

    def _change(self, values: dict[str, Any], name: str | None = None) -> None:
        if self._tests and name in (None, self._tests[-1].name):
            self._tests[-1] = self._tests[-1].model_copy(update=values)

    def _close_matrix(self) -> None:
        matrix = self._lines.answer if self._lines is not None else None
        self._lines = None
        if matrix is not None:
            self._change({"matrix": matrix})

    def answer(self) -> Maybe[Nvbandwidth]:
        self._close_matrix()
        if not self._tests and self._version is None:
            return Unknown(unknown="it holds no test of nvbandwidth", supply="give the whole output of nvbandwidth")
        return Nvbandwidth(
            version=self._version or NOT_SHOWN,
            driver_version=self._driver or NOT_SHOWN,
            devices=tuple(self._devices),
            tests=tuple(self._tests),
            skipped=self._skipped.all,
        )


def _of_json(text: str) -> Nvbandwidth | None:
    for found in values(text):
        body = found.value.get("nvbandwidth") if isinstance(found.value, dict) else None
        if not isinstance(body, dict):
            continue
        cases = body.get("testcases")
        listed = [case for case in cases if isinstance(case, dict)] if isinstance(cases, list) else []
        devices = body.get("GPU Device list", body.get("gpus"))
        named = [str(device) for device in devices] if isinstance(devices, list) else []
        cut = (Skipped(first=found.line, last=found.line, why="the JSON is cut"),) if found.is_cut else ()
        return Nvbandwidth(
            version=_word(body, "Version", "git_version", "version"),
            driver_version=_word(body, "Driver Version", "driver_version"),
            devices=tuple(Mention(line=found.line, text=name) for name in named),
            tests=tuple(_case(case, text, found.line) for case in listed[:_MOST_CASES]),
            skipped=cut,
        )
    return None


def _word(body: dict[str, Any], *names: str) -> Maybe[str]:
    return next((str(body[name]) for name in names if body.get(name)), NOT_SHOWN)


def _case(case: dict[str, Any], text: str, line: int) -> BandwidthTest:
    name = str(case.get("name", ""))[:100]
    words = str(case.get("status", "Passed"))
    at = text.find(f'"{name}"')
    status: Status = "passed" if words.lower() == "passed" else ("waived" if words.lower() == "waived" else "error")
    return BandwidthTest(
        line=text.count("\n", 0, at) + 1 if at >= 0 else line,
        name=name,
        matrix=_matrix(case, line),
        sum=_number(case.get("sum")),
        status=status,
        words="" if status == "passed" else words[:200],
    )


def _matrix(case: dict[str, Any], line: int) -> NumberMatrix | None:
    rows = case.get("bandwidth_matrix")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        return None
    return NumberMatrix(
        line=line,
        title=str(case.get("bandwidth_description", ""))[:120],
        unit="GB/s",
        columns=tuple(range(max(len(row) for row in rows))),
        rows=tuple((line, at, tuple(_number(cell) for cell in row)) for at, row in enumerate(rows)),
    )


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
