"""nvidia-smi shows a link with fewer lanes than the GPU has."""

from __future__ import annotations

from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS, label, told
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiGpu, SmiReading

ID = "smi-link-width"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    narrow: list[SmiGpu] = []
    for gpu in reading.gpus:
        now, top = gpu.number("link_width_current"), gpu.number("link_width_max")
        if isinstance(now, Unknown):
            continue  # most forms do not print it, and then it says nothing
        if isinstance(top, Unknown):
            yield undecided(ID, top, f"lanes of {label(gpu)}, which runs with {now}")
        elif now < top:
            narrow.append(gpu)
    for gpu in narrow:
        yield found(
            ID,
            "warning",
            (label(gpu),),
            f"{label(gpu)} runs with {gpu.number('link_width_current')}x of {gpu.number('link_width_max')}x lanes",
            (told(document, gpu, "link_width_current", "current"), told(document, gpu, "link_width_max", "max")),
            "its bandwidth to the host is a part of what it could be; some servers and clouds wire a slot so",
            "lspci -vv -s ADDRESS | grep Lnk   # on the host: seat, riser, bifurcation of the slot",
            source="NVIDIA, nvidia-smi manual (GPU Link Info); PCI Express Base Specification, 7.5.3.8",
            cause="a link has fewer lanes than the GPU",
        )


RULE = DocumentRule(ID, "nvidia-smi shows a link with fewer lanes than the GPU has", SMI_KINDS, check)
