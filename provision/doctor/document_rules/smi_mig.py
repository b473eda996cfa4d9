"""A GPU is split into instances (MIG), which excludes P2P."""

from __future__ import annotations

from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS, label, told
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiReading

ID = "smi-mig"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    split = [gpu for gpu in reading.gpus if gpu.text("mig") == "Enabled"]
    for gpu in reading.gpus:
        if "mig" in gpu.errors:
            yield undecided(ID, Unknown(unknown=f"it reads {gpu.facts['mig'].text}"), f"MIG mode of {label(gpu)}")
    if split:
        yield found(
            ID,
            "warning",
            (label(gpu) for gpu in split),
            f"MIG is enabled on {', '.join(dict.fromkeys(label(gpu) for gpu in split))}",
            (told(document, gpu, "mig", "MIG mode") for gpu in split),
            "the driver refuses P2P (NS for every pair) to all GPUs of the machine that are asked together with it",
            "nvidia-smi -i GPU -mig 0   # in the guest, with no work on the GPU, where P2P is wanted",
            source="NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/platform/p2p/p2p_caps.c",
            cause="MIG is enabled",
        )


RULE = DocumentRule(ID, "A GPU is split into instances, which excludes P2P", SMI_KINDS, check)
