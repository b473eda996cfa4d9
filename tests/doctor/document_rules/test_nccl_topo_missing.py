"""nccl-topo-missing."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import document_examples as texts

from provision.doctor.document_rules.nccl_topo_missing import RULE
from provision.readers.recognize import documents

FLAT = texts.topology(*("\t".join("X" if a == b else "PHB" for b in range(4)) + "\t0-7\tN/A" for a in range(4)))


LOG = texts.NCCL_LOG.format(via="SHM/direct/direct")


def test_fires_on_nodes_that_the_guest_does_not_see(build, examples) -> None:
    """Four GPUs on two nodes of the host."""
    (finding,) = bundle(numa_host(build, examples), FLAT, LOG)
    assert (finding.rule, finding.severity, finding.subjects) == ("nccl-topo-missing", "info", ("vm/100",))
    assert "nodes 0, 1" in finding.summary


def test_is_silent_on_one_node_and_with_a_file(build, examples) -> None:
    assert bundle(numa_host(build, examples, second=0), FLAT, LOG) == []
    loads = LOG + "node:100:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/nccl/topo.xml\n"
    assert bundle(numa_host(build, examples), FLAT, loads) == []


def test_cannot_decide_without_a_log_or_the_host(build, examples) -> None:
    (asked,) = bundle(numa_host(build, examples), FLAT)
    assert "topology file" in asked.missing
    (asked,) = bundle(build(vms={}).model(), FLAT, LOG)
    assert "NUMA nodes of the host" in asked.missing


def numa_host(build, examples, second: int = 1):
    cards = tuple(
        examples.gpu(f"0000:{bus}:00.0", group, numa_node=node)
        for bus, group, node in (("41", 31, 0), ("42", 32, 0), ("81", 45, second), ("82", 46, second))
    )
    slots = "".join(f"hostpci{at}: {card.bdf},pcie=1\n" for at, card in enumerate(cards))
    lines = [line for line in examples.vm.splitlines() if not line.startswith("hostpci")]
    return build(functions=cards, mappings="", vms={100: "\n".join(lines) + "\n" + slots}).model()


def bundle(host, *given: str):
    found = [one for at, text in enumerate(given) for one in documents(f"{at}.txt", text)[0] if one.kind in RULE.kinds]
    return list(RULE.check(found, host))
