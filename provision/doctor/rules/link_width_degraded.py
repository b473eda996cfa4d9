"""A GPU's link has fewer lanes than both ends offer."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import link_of, parent_of, title
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import Link, PciFunction

ID = "link-width-degraded"
SOURCE = "PCI Express Base Specification, 7.5.3.8"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        link, port = link_of(gpu), parent_of(gpu, model)
        above = link_of(port) if port else None
        if link is None:
            continue
        if isinstance(link, Unknown):
            yield undecided(ID, link, f"link of {gpu.bdf}")
            continue
        now, top = link.current_width, link.max_width
        limit = above.max_width if isinstance(above, Link) else above
        if isinstance(now, Unknown) or isinstance(top, Unknown) or isinstance(limit, Unknown):
            yield from open_question(ID, *((fact, f"link width of {gpu.bdf}") for fact in (now, top, limit)))
            continue
        if now < min(top, limit or top):
            yield _finding(gpu, now, min(top, limit or top))


def _finding(gpu: PciFunction, now: int, top: int) -> Finding:
    return found(
        ID,
        "warning",
        (gpu.bdf,),
        f"{title(gpu)} runs with {now} of {top} lanes (x{now} of x{top})",
        (
            cite.hardware(f"{gpu.bdf}/current_link_width", str(now)),
            cite.hardware(f"{gpu.bdf}/max_link_width", str(top)),
        ),
        "its bandwidth is a part of what slot and card can do",
        "seat the card again; check riser, cable and the slot's bifurcation in the firmware",
        source=SOURCE,
        cause=f"x{now} of x{top} lanes",
    )


RULE = Rule(ID, "A GPU runs with fewer PCIe lanes than it could", check)
