"""The shipped probe measures between the GPUs of a lab guest: granted by cliques, refused, and with faults."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import ConnectionRefused
from provision.guest.facts import GuestFacts, parse_probe
from provision.lab.guest_commands import shipped_probe
from provision.lab.guest_log import kernel_log
from provision.lab.guest_tree import LIBRARIES
from provision.lab.supervisor import RunningLab

Reach = Callable[..., Any]
Repair = Callable[[RunningLab], None]
CLIQUES = " ".join(f"-set device.hostpci{n}.x-nv-gpudirect-clique={n // 4}" for n in range(8))


def measure(guest: Any, *words: str) -> GuestFacts:
    done = guest.python(shipped_probe(), ("--p2p", "quick", *words))
    assert done.rc == 0, done.stderr
    return parse_probe(done.stdout.decode(), 100)


@pytest.fixture
def guest(lab: RunningLab, reach: Reach, repair_mapping: Repair) -> Any:
    """A running guest with two cliques of four GPUs."""
    repair_mapping(lab)
    session = reach(lab)
    assert session.run(("qm", "set", "100", "--cpu", "host", "--args", CLIQUES)).rc == 0
    assert session.run(("qm", "start", "100")).rc == 0
    for _ in range(300):
        try:
            return reach(lab, 100)
        except ConnectionRefused:
            time.sleep(0.02)
    raise AssertionError("the guest does not come up")


def states(facts: GuestFacts) -> dict[tuple[int, int], str]:
    assert facts.p2p_measured is not None
    return {(row["source"], row["target"]): row["state"] for row in facts.p2p_measured["pairs"]}


def test_pairs_within_a_clique_work_and_others_are_refused(guest: Any) -> None:
    facts = measure(guest, "--accept-risk")
    for (source, target), state in states(facts).items():
        assert state == ("ok" if source // 4 == target // 4 else "refused")
    assert facts.p2p_measured is not None
    assert facts.p2p_measured["all"]["state"] == "ok"


def test_without_the_host_s_word_no_peer_is_written_to(guest: Any) -> None:
    assert set(states(measure(guest, "--pairs", "0-1,0-4")).values()) == {"skipped", "refused"}


@pytest.mark.parametrize(
    ("fault", "state"), [("mirror", "wrong-data"), ("wrong-data", "wrong-data"), ("hang", "hang"), ("crash", "crash")]
)
def test_a_fault_of_a_pair(lab: RunningLab, guest: Any, fault: str, state: str) -> None:
    path = lab.lab.site.guest_root(100) / LIBRARIES
    answers = json.loads(path.read_text())
    answers["pairs"]["0-1"] = fault
    path.write_text(json.dumps(answers))
    found = states(measure(guest, "--pairs", "0-1,2-3", "--accept-risk"))
    assert found == {(0, 1): state, (2, 3): "ok"}


def test_the_kernel_log_of_a_guest_is_read(guest: Any) -> None:
    facts = measure(guest, "--pairs", "0-1")
    lines = facts.kernel_log.lines  # type: ignore[union-attr]
    assert len(lines) == 1
    assert "NVRM: loading NVIDIA UNIX Open Kernel Module" in lines[0]


def test_what_the_driver_says_of_gpus_that_it_cannot_take() -> None:
    text = kernel_log("NVIDIA UNIX", ["0000:05:00.0"], [("0000:01:00.0", "2bb5")])
    assert "BAR1 is 0M @ 0x0 (PCI:0000:05:00.0)" in text
    assert "GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)" in text
    assert kernel_log(None, ["0000:05:00.0"], []).count("NVRM") == 0
