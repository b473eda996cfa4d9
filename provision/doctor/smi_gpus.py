"""GPUs as nvidia-smi shows them: what they are called in a finding, and where a fact stands."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.finding import Evidence
from provision.readers.document import Document, Kind
from provision.readers.smi_model import SmiGpu

SMI_KINDS: frozenset[Kind] = frozenset({"nvidia-smi-table", "nvidia-smi-query", "nvidia-smi-xml"})
WHOLE_KINDS: frozenset[Kind] = frozenset({"nvidia-smi-query", "nvidia-smi-xml"})
"""Outputs that have every fact, where they are not cut."""


def label(gpu: SmiGpu) -> str:
    """Return the GPU's address, else its number, else that an excerpt does not name it."""
    if gpu.bdf is not None:
        return gpu.bdf
    return f"GPU {gpu.index}" if gpu.index is not None else "the GPU"


def told(document: Document, gpu: SmiGpu, fact: str, title: str) -> Evidence:
    """Cite a fact that was printed."""
    return quoted(document, gpu.line_of(fact), f"{title}: {gpu.facts[fact].text}")
