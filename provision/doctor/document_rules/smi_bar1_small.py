"""The window to a GPU's memory is smaller than its memory."""

from __future__ import annotations

from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS, label, told
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiGpu, SmiReading

ID = "smi-bar1-small"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    small: list[SmiGpu] = []
    for gpu in reading.gpus:
        window, memory = gpu.number("bar1_mib"), gpu.number("framebuffer_mib")
        if isinstance(window, Unknown):
            continue  # most forms do not print it, and then it says nothing
        if isinstance(memory, Unknown):
            yield undecided(ID, memory, f"memory of {label(gpu)}, to compare its BAR1 of {window} MiB with")
        elif window < memory:
            small.append(gpu)
    if small:
        sizes = ", ".join(
            dict.fromkeys(f"{gpu.number('bar1_mib')} of {gpu.number('framebuffer_mib')} MiB" for gpu in small)
        )
        yield found(
            ID,
            "info",
            (label(gpu) for gpu in small),
            f"BAR1 shows {sizes} of the memory of {', '.join(dict.fromkeys(label(gpu) for gpu in small))}",
            (told(document, gpu, "bar1_mib", "BAR1 total") for gpu in small),
            "nothing for work on one GPU; P2P through BAR1 needs a window as large as the memory",
            "firmware setup of the host: Above 4G Decoding and Resizable BAR on, or displaymodeselector",
            source="NVIDIA open-gpu-kernel-modules, kern_bus_tu102.c (static BAR1); NVIDIA, displaymodeselector",
            cause="BAR1 is smaller than the memory",
        )


RULE = DocumentRule(ID, "nvidia-smi shows a BAR1 that is smaller than the memory", SMI_KINDS, check)
