"""Tables of nccl-tests (``all_reduce_perf`` and its relatives), alone or between lines of NCCL's log.

Columns are taken from the header above the rows, as they differ between versions: ``error`` became ``#wrong``, and
``root`` came later.  ``N/A`` in that column, and a run with ``validation: 0``, mean that nothing was compared; the
line ``Out of bounds values : 0 OK`` says nothing then.

Sources: nccl-tests, src/common.cu and src/util.cu; its doc/PERFORMANCE.md for what bus bandwidth is.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from provision.evidence import Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, SkippedLines
from provision.readers.nccl_tests_model import Device, Figures, NcclTests, Row, Table
from provision.readers.signals import certainty, signal

_SIGNALS = (
    signal(0.95, r"#? ?# ?Collective test starting: "),
    signal(0.9, r"#\s*nThreads? \d+ nGpus \d+ minBytes "),
    signal(0.85, r"#?\s*size\s+.{0,80}?time\s+algbw\s+busbw"),
    signal(0.6, r"#\s*(?:Out of bounds values|Avg bus bandwidth)\s*:"),
)
_STARTING = re.compile(r"#\s*(?:nccl-tests version (?P<version>\S{1,30})|Collective test starting: (?P<name>\S{1,80}))")
_CONCLUDED = re.compile(r"#\s*Collective test concluded")
_PARAMETERS = re.compile(r"#\s*nThreads? (?P<rest>\d+ nGpus .{0,300})")
_PARAMETER = re.compile(r"(minBytes|maxBytes|iters|validation|graph|warmup iters|agg iters):? (\d{1,15})")
_DEVICE = re.compile(
    r"#\s*Rank\s+(?P<rank>\d{1,5})(?:\s+Group\s+\d{1,5})?\s+Pid\s+(?P<pid>\d{1,10}) on\s+(?P<host>\S{1,255})"
    r"\s+device\s+(?P<device>\d{1,4}) \[(?P<bus>[0-9A-Fa-fx:.]{1,16})\]\s*(?P<name>.{0,100})"
)
_OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(?P<count>\d{1,15})\s*(?P<word>\w*)")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(?P<value>\d[\d.e+-]{0,20})")
_ROW = re.compile(r"\s*\d[\d_]{0,15}\s")
_WHOLE = re.compile(r"\d[\d_]{0,17}$")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,10})?(?:e[+-]?\d{1,3})?$")
_LOGGED = re.compile(r"(?<![^\s:])(?P<host>[^\s:]{1,255}):\d{1,10}:\d{1,10} \[-?\w{1,8}\] .{0,200}?NCCL (?:INFO|WARN)")
_FAILED = re.compile(r".{0,200}?(?:Test (?:NCCL|CUDA) failure|Test failure)")

_BODY = ("time", "algbw", "busbw")
_WRONG = ("#wrong", "error", "errors", "wrong")
_SHAPES = {
    13: ("size", "count", "type", "redop", "root", *_BODY, "#wrong", *_BODY, "#wrong"),
    12: ("size", "count", "type", "redop", *_BODY, "#wrong", *_BODY, "#wrong"),
    8: ("size", "count", "type", "redop", *_BODY, "#wrong"),
    9: ("size", "count", "type", "redop", "root", *_BODY, "#wrong"),
}
"""Columns of a row whose header was not given, by the number of its words."""
_TYPES = frozenset({"half", "float", "double"})
_TYPE = re.compile(r"(?:u?int|float|bfloat)\d{1,2}$|f8e\dm\d$")
_TOLERATED = 1e-1
"""Half precision sums of old versions differ by up to 5e-2, whatever the operation."""


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[NcclTests]:
    """Return the tables; Unknown where there is no row and no header of one."""
    run = _Run()
    for number, line in enumerate(unquoted(text), 1):
        run.take(number, line[:2000])
    return run.answer()


class Pending(NamedTuple):
    """A row as far as it was printed: with the log on, its figures come lines later."""

    line: int
    words: list[str]

    def takes(self, words: list[str], columns: tuple[str, ...]) -> bool:
        """Whether ``words`` are figures, and figures are what is missing."""
        here = len(self.words)
        missing = columns[here : here + 1] in (("time",), ("cputime",))
        return bool(self.words) and missing and all(_NUMBER.match(word) or word == "N/A" for word in words)

    def with_words(self, words: list[str]) -> Pending:
        return Pending(self.line, [*self.words, *words])


class _Draft:
    """A table that is being read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.devices: list[Device] = []
        self.rows: list[Row] = []
        self.failures: list[Mention] = []
        self.values: dict[str, Any] = {}

    def finish(self) -> Table:
        return Table(
            line=self.line,
            devices=tuple(self.devices),
            rows=tuple(self.rows),
            failures=tuple(self.failures),
            **self.values,
        )


class _Run:
    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.table: _Draft | None = None
        self.columns: tuple[str, ...] = ()
        self.skipped = SkippedLines()
        self.row = Pending(0, [])
        self.hosts: set[str] = set()

    def take(self, number: int, line: str) -> None:
        words = self._without_log(line).lstrip("# \t").split()
        if not words:
            return
        if words[0] == "size" and "time" in words:
            self._header(number, tuple(words))
        elif line.lstrip().startswith("#"):
            self._end_row()
            self._comment(number, line.strip())
        elif self.row.takes(words, self.columns):
            self.row = self.row.with_words(words)
        elif _ROW.match(line + " ") and (self.columns or _is_bare(words)):
            self._end_row()
            self.row = Pending(number, words)
        elif self.table is not None and _FAILED.match(line):
            self.table.failures.append(Mention(line=number, text=line.strip()))

    def _without_log(self, line: str) -> str:
        """Return what the table printed before NCCL's log went on in the same line.

        A figure and the host's name then stand together (``0node1:12:12 [0] NCCL INFO``): they are taken apart only
        where the name is known, as a name may begin with a digit.
        """
        match = _LOGGED.search(line)
        if match is None:
            return line
        host = match["host"]
        if match.start() == 0:
            self.hosts.add(host)
            return ""
        name = max((name for name in self.hosts if host.endswith(name)), key=len, default=None)
        return line[: match.start()] + (host[: -len(name)] if name else "")

    def _header(self, number: int, words: tuple[str, ...]) -> None:
        self._end_row()
        if self.table is None or self.table.rows:
            self._begin(number)
        self.columns = words

    def _begin(self, number: int) -> None:
        self._close()
        self.table = _Draft(number)

    def _comment(self, number: int, line: str) -> None:
        if match := _STARTING.match(line):
            self._fresh(number)
            self._set(test=match["name"])
        elif match := _PARAMETERS.match(line):
            self._fresh(number)
            found = tuple((name, int(value)) for name, value in _PARAMETER.findall(match["rest"]))
            self._set(parameters=found, parameters_line=number)
        elif match := _DEVICE.match(line):
            self._device(number, match)
        else:
            self._footer(number, line)

    def _fresh(self, number: int) -> None:
        """Begin a table, unless the one at hand has only a title so far."""
        if self.table is None or self.table.rows or self.table.values.keys() - {"test"}:
            self._begin(number)
            self.columns = ()

    def _device(self, number: int, match: re.Match[str]) -> None:
        device = Device(
            line=number,
            rank=int(match["rank"]),
            host=match["host"],
            device=int(match["device"]),
            bus=match["bus"],
            name=match["name"].strip(),
        )
        self._open(number).devices.append(device)
        self.hosts.add(device.host)

    def _footer(self, number: int, line: str) -> None:
        if match := _OUT_OF_BOUNDS.match(line):
            self._set(out_of_bounds=Mention(line=number, text=line), out_of_bounds_count=int(match["count"]))
        elif match := _AVERAGE.match(line):
            self._set(average=Mention(line=number, text=line), average_gbs=_float(match["value"]))
        elif _CONCLUDED.match(line):
            self._set(is_concluded=True)

    def _end_row(self) -> None:
        number, words = self.row
        self.row = Pending(0, [])
        if not words:
            return
        row = read_row(number, words, self.columns or _SHAPES[len(words)])
        if row is None:
            self.skipped.add(number, "a row with words that are no figures")
            return
        self._open(number).rows.append(row)

    def _open(self, number: int) -> _Draft:
        if self.table is None:
            self.table = _Draft(number)
        return self.table

    def _set(self, **values: object) -> None:
        if self.table is not None:
            self.table.values.update(values)

    def _close(self) -> None:
        if self.table is not None:
            self.tables.append(self.table.finish())

    def answer(self) -> Maybe[NcclTests]:
        self._end_row()
        self._close()
        if not self.tables:
            return Unknown(unknown="it holds no table of nccl-tests", supply="give the whole output of all_reduce_perf")
        return NcclTests(tables=tuple(self.tables), skipped=self.skipped.all)


def read_row(number: int, words: list[str], columns: tuple[str, ...]) -> Row | None:
    """Return the row, or None where size or figures are no numbers."""
    starts = [place for place, column in enumerate(columns) if column in ("time", "cputime")]
    if not starts or not _WHOLE.match(words[0]):
        return None
    ends = [*starts[1:], len(columns)]
    named = dict(zip(columns[: starts[0]], words, strict=False))
    parts = [_figures(words[begin:end], columns[begin:end]) for begin, end in zip(starts, ends, strict=True)]
    if parts[0] is None:
        return None
    return Row(
        line=number,
        size=int(words[0].replace("_", "")),
        type=named.get("type"),
        operation=named.get("redop"),
        out_of_place=parts[0],
        in_place=parts[1] if len(parts) > 1 else None,
    )


def _is_bare(words: list[str]) -> bool:
    """Whether this is a row of a table whose header was not given."""
    return len(words) in _SHAPES and (words[2] in _TYPES or _TYPE.match(words[2]) is not None)


def _figures(words: list[str], columns: tuple[str, ...]) -> Figures | None:
    named = dict(zip(columns, words, strict=False))
    numbers = [_float(named.get(column, "")) for column in (columns[0], "algbw", "busbw")]
    time, algorithm, bus = numbers
    if time is None or algorithm is None or bus is None:
        return None
    wrong = next((named[column] for column in _WRONG if column in named), "N/A")
    return Figures(time_us=time, algorithm_gbs=algorithm, bus_gbs=bus, wrong=_count(wrong, columns))


def _count(word: str, columns: tuple[str, ...]) -> int | None:
    """Old versions print an error of floating point in place of a count: above their tolerance it counts as one."""
    value = _float(word)
    if value is None:
        return None
    if "#wrong" in columns:
        return int(value)
    return 0 if value < _TOLERATED else 1


def _float(word: str) -> float | None:
    return float(word) if _NUMBER.match(word) else None
