"""Claims about a guest with GPUs; they need no inventory, and with one they know what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import Undecided
from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.host.from_text import model_from_text
from provision.plan.model import Expectation
from provision.verify.checks import CHECKS, judge
from provision.verify.cycles_guest import complaints
from provision.verify.facts import Judgement, ProofFacts
from provision.verify.modules.nvidia_gpus import NvidiaGpus
from provision.verify.suite.conftest import Machine

pytestmark = pytest.mark.pvectl_claim
CLAIMS = tuple(name for name, _judge in CHECKS if name.startswith("guest-"))


@pytest.fixture(params=CLAIMS)
def judgement(
    request: pytest.FixtureRequest, machine: Machine, record_figure: Callable[[str, object], None]
) -> Judgement:
    """Judge one claim before the test: what could not be looked at is then an error, not a failure."""
    machine.need("guest")
    gpus: NvidiaGpus = request.getfixturevalue("nvidia_gpus")
    expectation = Expectation(
        check=request.param, subject="vm/0", expected=_expected(request.param, machine, gpus.facts)
    )
    found = judge(_facts(machine.name, gpus.facts), expectation)
    if request.param == "guest-gpus":
        _measured(gpus.facts, record_figure)
    record_figure("pvectl_expected", expectation.expected)
    record_figure("pvectl_found", found.text)
    if found.state == "undecided":
        raise Undecided(f"Unable to judge {request.param} of {machine.name}: {found.text}", found.hint)
    return found


def test_claim(judgement: Judgement) -> None:
    assert judgement.state == "pass", f"{judgement.text}; {judgement.hint}"


@pytest.fixture
def log_errors(request: pytest.FixtureRequest, machine: Machine) -> list[str]:
    """What the guest's kernel log says that is an error of a GPU, or of the way to it."""
    machine.need("guest")
    facts: GuestFacts = request.getfixturevalue("nvidia_gpus").facts
    if isinstance(facts.kernel_log, Unknown):
        why = facts.kernel_log
        raise Undecided(f"Unable to read the kernel log of {machine.name}: {why.unknown}", why.supply)
    return [one.record.text for one in complaints(facts)]


def test_the_kernel_log_has_no_error_of_a_gpu(log_errors: list[str]) -> None:
    assert not log_errors, log_errors[0]


def _expected(check: str, machine: Machine, facts: GuestFacts) -> str:
    """What a plan would want; without an inventory, that every GPU that is on the bus works."""
    if check in ("guest-gpus", "guest-cuda"):
        return str(_count(machine, facts))
    if check == "guest-p2p":
        return machine.need_entry().policies.p2p
    return ""


def _count(machine: Machine, facts: GuestFacts) -> int:
    wish = machine.entry.vm.gpus if machine.entry is not None and machine.entry.vm is not None else None
    named = 0 if wish is None else wish.count or len(wish.bdf)
    if not named and not facts.pci:
        pytest.skip(f"not applicable: {machine.name} has no GPU, and no inventory says that it should")
    return named or len(facts.pci)


def _facts(name: str, guest: GuestFacts) -> ProofFacts:
    unasked = Unknown(unknown="the host was not asked", supply="pvectl verify")
    return ProofFacts(
        host=name, model=model_from_text(()).model, mapping_checks=unasked, vm_status={}, guests={0: guest}
    )


def _measured(facts: GuestFacts, record: Callable[[str, Any], None]) -> None:
    """Put the figures that the claims rest on into the JUnit report."""
    record("gpus_on_bus", len(facts.pci))
    for name, value in (("driver", facts.driver), ("kernel", facts.kernel), ("boot_id", facts.boot_id)):
        record(name, str(value))
    if not isinstance(facts.nvml, Unknown):
        for gpu in facts.nvml:
            record(f"gpu{gpu.index}_gsp", str(gpu.gsp_version))
            record(f"gpu{gpu.index}_bar1_bytes", str(gpu.bar1_bytes))
            record(f"gpu{gpu.index}_memory_bytes", str(gpu.memory_bytes))
