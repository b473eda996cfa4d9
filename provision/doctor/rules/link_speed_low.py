"""A GPU's link runs below its speed now."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import SPEEDS, link_of, parent_of
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.host.text_layout import count
from provision.pci.model import Link, PciFunction

ID = "link-speed-low"
SOURCE = "PCI Express Base Specification, 7.5.3.8; NVIDIA, nvidia-smi documentation, GPU Link information"


def check(model: HostModel) -> Outcome:
    slow: list[tuple[PciFunction, int, int]] = []
    for gpu in model.gpus():
        link, port = link_of(gpu), parent_of(gpu, model)
        above = link_of(port) if port else None
        if link is None:
            continue
        if isinstance(link, Unknown):
            yield undecided(ID, link, f"link of {gpu.bdf}")
            continue
        now, top = link.current_gen, link.max_gen
        limit = above.max_gen if isinstance(above, Link) else above
        if isinstance(now, Unknown) or isinstance(top, Unknown):
            yield from open_question(ID, *((fact, f"link speed of {gpu.bdf}") for fact in (now, top)))
        elif now < min(top, known(limit, None) or top):
            slow.append((gpu, now, min(top, known(limit, None) or top)))
        elif now < top:
            yield from open_question(ID, (limit, f"link speed of the port above {gpu.bdf}"))
    if slow:
        speeds = ", ".join(sorted({f"{SPEEDS[now]} of {SPEEDS[top]}" for _, now, top in slow}))
        yield found(
            ID,
            "info",
            (gpu.bdf for gpu, _, _ in slow),
            f"PCIe links of {count(len(slow), 'GPU')} run at {speeds}: normal at idle",
            (cite.hardware(f"{gpu.bdf}/current_link_speed", SPEEDS[now]) for gpu, now, _ in slow),
            "none at idle; under load it would be a fault of riser, cable or slot",
            "read it again while the GPU works: nvidia-smi -q -d PERFORMANCE,PCIE in the guest",
            source=SOURCE,
        )


RULE = Rule(ID, "A GPU's link runs slower than it could, as it does at idle", check)
