"""A clique spans NUMA nodes."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "clique-cross-socket"
SOURCE = "AMD, Tuning guides for EPYC, NUMA nodes per socket; NVIDIA open-gpu-kernel-modules, p2p_caps.c"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if not guest.has_clique:
        return
    cliques = guest.in_clique()
    if isinstance(cliques, Unknown):
        yield undecided(ID, cliques, f"devices of {guest.name}")
        return
    for number, functions in cliques.items():
        gpus = [function for function in functions if function.is_nvidia_gpu]
        nodes = {gpu.numa_node for gpu in gpus if isinstance(gpu.numa_node, int)}
        for gpu in gpus:
            yield from open_question(ID, (gpu.numa_node, f"NUMA node of {gpu.bdf}"))
        if len(nodes) > 1:
            yield found(
                ID,
                "warning",
                (guest.subject, *(gpu.bdf for gpu in gpus)),
                f"{guest.name}: clique {number} spans NUMA nodes {', '.join(map(str, sorted(nodes)))}",
                (
                    guest.cite("args"),
                    *(cite.hardware(f"{gpu.bdf}/numa_node", str(gpu.numa_node)) for gpu in gpus),
                ),
                "transfers go through the link between the sockets: the slowest path, and the least proven one",
                "one clique for each socket first; join them only after pvectl verify has proven every pair",
                source=SOURCE,
            )


RULE = Rule(ID, "A clique joins GPUs of different NUMA nodes", check)
