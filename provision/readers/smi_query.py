"""``nvidia-smi -q`` as text, whole or through grep."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.readers.lines import excerpt, unquoted
from provision.readers.mention import Mention, SkippedLines
from provision.readers.signals import certainty, signal
from provision.readers.smi_model import NO_VERSION, SmiError, SmiGpu, SmiReading, bdf_of, error_of
from provision.readers.smi_paths import BUS_ID, FACT_AT, normal

_SIGNALS = (
    signal(0.95, r"\s*=+NVSMI LOG=+\s*$"),
    signal(0.8, r"GPU (?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$"),
    signal(0.7, r"\s+(?:BAR1|FB) Memory Usage\s*$"),
    signal(0.7, r"\s+(?:MIG Mode|GPU Virtualization Mode|GPU Link Info|PCIe Generation|Link Width)\s*$"),
    signal(0.4, r"\s+(?:Product Name|Bus Id|GPU UUID|Virtualization [Mm]ode|Performance State)\s+: \S"),
    signal(0.3, r"\s+(?:Max|Current|Total|Used)\s+: \d+(?:x| MiB)?\s*$"),
    signal(0.5, r"Attached GPUs\s+: \d+"),
)
_GPU = re.compile(r"GPU (?P<bus>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_LOG = re.compile(r"\s*=+NVSMI LOG=+\s*$")
_HEADING = re.compile(r"\s*[A-Z][\w ()/,.-]*$")
_LAST = frozenset({"processes", "capabilities", "process_id"})
"""What a GPU's answer ends with: a text that stops before is cut."""


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[SmiReading]:
    """Return the GPUs; Unknown where no line has the form of this output."""
    query = _Query()
    for number, line in enumerate(unquoted(text), 1):
        query.take(number, line)
    return query.answer()


class _Gpu:
    def __init__(self, line: int, bdf: str | None) -> None:
        self.line = line
        self.bdf = bdf
        self.facts: dict[str, Mention] = {}
        self.headings: set[str] = set()

    def freeze(self, index: int | None) -> SmiGpu:
        return SmiGpu(line=self.line, index=index, bdf=self.bdf, facts=self.facts)


class _Query:
    """Takes lines in order; indentation says under which heading a value stands."""

    def __init__(self) -> None:
        self._gpus: list[_Gpu] = []
        self._head: dict[str, Mention] = {}
        self._errors: list[SmiError] = []
        self._skipped = SkippedLines()
        self._stack: list[tuple[int, str]] = []
        self._has_log = False

    def take(self, number: int, line: str) -> None:
        text = line.expandtabs().rstrip()
        error = error_of(number, text)
        if error is not None:
            self._errors.append(error)
        elif match := _GPU.match(text):
            self._gpus.append(_Gpu(number, bdf_of(match["bus"])))
            self._stack = []
        elif _LOG.match(text):
            self._has_log = True
            self._stack = []
        elif text.strip() and not text.startswith("#"):
            self._value_or_heading(number, text)

    def _value_or_heading(self, number: int, text: str) -> None:
        indent = len(text) - len(text.lstrip())
        name, colon, value = text.partition(" :")
        while self._stack and self._stack[-1][0] >= indent:
            self._stack.pop()
        if colon:
            self._value(Mention(line=number, text=value.strip()), normal(name))
        elif _HEADING.match(text) and len(self._stack) < 12:
            self._stack.append((indent, normal(text)))
            if self._gpus:
                self._gpus[-1].headings.add(normal(text))
        elif self._has_log or self._gpus:
            self._skipped.add(number, f"not understood: {excerpt(text)!r}")

    def _value(self, value: Mention, name: str) -> None:
        path = "/".join([*(heading for _, heading in self._stack), name])
        fact = FACT_AT.get(path)
        if fact is not None:
            self._gpu(value.line).facts.setdefault(fact, value)
        elif path in BUS_ID:
            gpu = self._gpu(value.line)
            gpu.bdf = gpu.bdf or bdf_of(value.text)
        elif not self._stack and not self._gpus:
            self._head.setdefault(name, value)
        if self._gpus:
            self._gpus[-1].headings.add(name)

    def _gpu(self, line: int) -> _Gpu:
        """Return the GPU that a value belongs to; one without a heading is an excerpt's."""
        if not self._gpus:
            self._gpus.append(_Gpu(line, None))
        return self._gpus[-1]

    def answer(self) -> Maybe[SmiReading]:
        gpus = [gpu for gpu in self._gpus if gpu.facts or gpu.bdf]
        if not gpus and not self._errors and not self._has_log:
            return Unknown(unknown="no line of it is one of nvidia-smi -q", supply="give the output of: nvidia-smi -q")
        attached = self._number("attached_gpus")
        return SmiReading(
            driver_version=self._text("driver_version", "kmd_version"),
            cuda_version=self._text("cuda_version", "cuda_umd_version"),
            attached=attached,
            gpus=tuple(gpu.freeze(index if self._has_log else None) for index, gpu in enumerate(gpus)),
            errors=tuple(self._errors),
            skipped=self._skipped.all,
            is_cut=self._is_cut(gpus, attached),
        )

    def _is_cut(self, gpus: list[_Gpu], attached: Maybe[int]) -> bool:
        if not self._has_log:
            return False
        fewer = isinstance(attached, int) and len({gpu.bdf for gpu in gpus}) < attached
        return fewer or bool(gpus and not gpus[-1].headings & _LAST)

    def _text(self, *names: str) -> Maybe[str]:
        """Return the first that is there; a new program says of an old name that it is deprecated."""
        found = (self._head[name].text for name in names if name in self._head)
        return next((text.split(" [")[0] for text in found if text and not text.startswith("Deprecated")), NO_VERSION)

    def _number(self, name: str) -> Maybe[int]:
        text = self._text(name)
        return int(text[:9]) if isinstance(text, str) and text.isdecimal() else NO_VERSION
