"""``nvidia-smi -q -x``: XML of any of its document types, whole or cut."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention
from provision.readers.signals import certainty, signal
from provision.readers.smi_model import NO_VERSION, SmiGpu, SmiReading, bdf_of
from provision.readers.smi_paths import BUS_ID, FACT_AT
from provision.readers.xml_scan import Element, scan

_ROOT = "nvidia_smi_log"
_SIGNALS = (
    signal(0.95, r"\s*<nvidia_smi_log\b"),
    signal(0.9, r"\s*<!DOCTYPE nvidia_smi_log\b"),
    signal(0.8, r"\s*<gpu id=\"[0-9A-Fa-f]{4,8}:"),
    signal(0.6, r"\s*<(?:fb_memory_usage|bar1_memory_usage|pci_gpu_link_info)>"),
)


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[SmiReading]:
    """Return the GPUs that are there; Unknown where no element of this output is."""
    log = _Log()
    for element in scan("\n".join(unquoted(text))):
        log.take(element)
    return log.answer()


class _Log:
    def __init__(self) -> None:
        self._gpus: list[SmiGpu] = []
        self._head: dict[str, str] = {}
        self._open: SmiGpu | None = None
        self._has_root = self._is_ended = False

    def take(self, element: Element) -> None:
        name = element.path[-1]
        self._has_root = self._has_root or _ROOT in element.path
        if element.event == "begin" and name == "gpu":
            self._close()
            bdf = bdf_of(element.attributes.get("id", ""))
            self._open = SmiGpu(line=element.line, index=len(self._gpus), bdf=bdf, facts={})
        elif element.event == "end" and name == "gpu":
            self._close()
        elif element.event == "end" and name == _ROOT:
            self._is_ended = True
        elif element.event == "text":
            self._value(element)

    def _close(self) -> None:
        if self._open is not None and (self._open.bdf or self._open.facts):
            self._gpus.append(self._open)
        self._open = None

    def _value(self, element: Element) -> None:
        if self._open is None:
            self._head.setdefault(element.path[-1], element.text)
            return
        path = "/".join(element.path[_below_gpu(element.path) :])
        fact = FACT_AT.get(path)
        if fact is not None:
            self._open.facts.setdefault(fact, Mention(line=element.line, text=element.text))
        elif path in BUS_ID and self._open.bdf is None:
            self._open = self._open.model_copy(update={"bdf": bdf_of(element.text)})

    def answer(self) -> Maybe[SmiReading]:
        unfinished = self._open is not None
        self._close()
        if not self._gpus and not self._has_root:
            return Unknown(unknown="it holds no <gpu>", supply="give the output of: nvidia-smi -q -x")
        attached = self._head.get("attached_gpus", "")
        count = int(attached[:9]) if attached.isdecimal() else None
        return SmiReading(
            driver_version=self._version("driver_version", "kmd_version"),
            cuda_version=self._version("cuda_version", "cuda_umd_version"),
            attached=NO_VERSION if count is None else count,
            gpus=tuple(self._gpus),
            errors=(),
            skipped=(),
            is_cut=unfinished or not self._is_ended or (count is not None and len(self._gpus) < count),
        )

    def _version(self, *names: str) -> Maybe[str]:
        """Return the first that is there; a new program adds to an old name that it is deprecated."""
        found = (self._head.get(name, "").split(" [")[0] for name in names)
        return next((text for text in found if text), NO_VERSION)


def _below_gpu(path: tuple[str, ...]) -> int:
    """Return where the names below the GPU's element begin."""
    return path.index("gpu") + 1 if "gpu" in path else len(path) - 1
