"""GPUs of the host itself are translated by the IOMMU."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "iommu-translated-host-gpus"
SOURCE = "Linux, Documentation/admin-guide/kernel-parameters.txt, iommu; NVIDIA NCCL documentation, Troubleshooting"


def check(model: HostModel) -> Outcome:
    gpus = [gpu for gpu in model.gpus() if gpu.driver == "nvidia"]
    doubtful = [gpu for gpu in model.gpus() if isinstance(gpu.driver, Unknown)]
    if len(gpus) + len(doubtful) < 2:
        return
    translated: list[tuple[PciFunction, str]] = []
    for gpu in (*gpus, *doubtful):
        group = model.group_of(gpu.bdf)
        domain = group.type if group else None
        if isinstance(domain, Unknown):
            yield undecided(ID, domain, f"domain type of the group of {gpu.bdf}")
        elif domain and domain.startswith("DMA"):
            translated.append((gpu, domain))
    sure = [(gpu, domain) for gpu, domain in translated if gpu.driver == "nvidia"]
    if len(sure) > 1:
        yield _finding(sure)
    elif len(translated) > 1:
        yield from open_question(ID, *((gpu.driver, f"driver of {gpu.bdf}") for gpu in doubtful))


def _finding(translated: list[tuple[PciFunction, str]]) -> Finding:
    return found(
        ID,
        "warning",
        (gpu.bdf for gpu, _ in translated),
        f"{len(translated)} GPUs are used by the host itself, with translated DMA",
        (cite.hardware(f"{gpu.bdf}/iommu_group/type", domain) for gpu, domain in translated),
        "transfers between GPUs on the host and in containers are slow, or hang",
        "policies.iommu: pt   # in the inventory, then pvectl plan: iommu=pt on the kernel command line",
        source=SOURCE,
        plan_fixes=True,
    )


RULE = Rule(ID, "GPUs that the host uses itself have translated DMA", check)
