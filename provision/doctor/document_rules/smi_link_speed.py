"""nvidia-smi shows a link that runs slower than it can."""

from __future__ import annotations

from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS, label, told
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiGpu, SmiReading

ID = "smi-link-speed"
_BUSY = ("P0", "P1", "P2")


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    slow: list[SmiGpu] = []
    for gpu in reading.gpus:
        now, top = gpu.number("link_gen_current"), gpu.number("link_gen_max")
        if isinstance(now, Unknown):
            continue  # most forms do not print it, and then it says nothing
        if isinstance(top, Unknown):
            yield undecided(ID, top, f"the fastest link of {label(gpu)}, which runs at generation {now}")
        elif now < top:
            slow.append(gpu)
    if slow:
        speeds = ", ".join(dict.fromkeys(f"{g.number('link_gen_current')} of {g.number('link_gen_max')}" for g in slow))
        yield found(
            ID,
            "info",
            (label(gpu) for gpu in slow),
            f"PCIe links run at generation {speeds}: {_state(slow)}",
            (told(document, gpu, "link_gen_current", "current generation") for gpu in slow),
            "none at idle, where the GPU slows its link on purpose; under load it would be a fault of riser or slot",
            "nvidia-smi -q -d PERFORMANCE   # again while the GPU works",
            source="NVIDIA, nvidia-smi manual (GPU Link Info)",
        )


def _state(gpus: list[SmiGpu]) -> str:
    states = {state for gpu in gpus if isinstance(state := gpu.text("performance_state"), str)}
    if not states:
        return "normal at idle"
    shown = ", ".join(sorted(states))
    return f"the GPU does not say that it idles ({shown})" if states & set(_BUSY) else f"idle ({shown}), and so normal"


RULE = DocumentRule(ID, "nvidia-smi shows a link that runs slower than it can", SMI_KINDS, check)
