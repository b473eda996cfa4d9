"""The output of nvidia-smi ends before its end."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.doctor.smi_gpus import WHOLE_KINDS, label
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiReading

ID = "smi-cut"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    if not reading.is_cut:
        return
    shown = len({label(gpu) for gpu in reading.gpus})
    attached = reading.attached if isinstance(reading.attached, int) else None
    fewer = attached is not None and shown < attached
    last = reading.gpus[-1].line if reading.gpus else 1
    yield found(
        ID,
        "warning",
        (document.name,),
        f"the text announces {attached} GPUs and holds {shown}" if fewer else "the text ends within a GPU's answer",
        (quoted(document, last, f"the last GPU begins here: {label(reading.gpus[-1])}" if reading.gpus else ""),),
        "what the rest would have shown is not known; nothing here says that a GPU is missing",
        "nvidia-smi -q   # give it whole",
        source="NVIDIA, nvidia-smi manual (Attached GPUs)",
    )


RULE = DocumentRule(ID, "The output of nvidia-smi is not whole", WHOLE_KINDS, check)
