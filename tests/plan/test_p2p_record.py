"""After lost data or a hang no clique is given again, as long as nothing that matters has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.evidence import Maybe, Unknown
from provision.guest.fingerprint import Fingerprint, GuestPart, HostPart
from provision.guest.record import PLACE, P2pRecord, SetRecord, render_records
from provision.guest.verdict_model import Verdict
from provision.host.model import HostModel
from provision.host.p2p_host import host_part
from provision.plan.model import Plan, VmSet

PlanFor = Callable[..., Plan]
WithVm = Callable[..., HostModel]
WithFile = Callable[..., HostModel]
CLIQUES = " ".join(f"-set device.hostpci{n}.x-nv-gpudirect-clique=0" for n in range(8))
GUEST = GuestPart(
    kernel="6.8.0", driver="595.58.03", module="open", gpus=("2bb5 98.02 GPU-1",), parameters=(), cliques=()
)
WHEN = "2026-01-02T03:04:05Z"


def record(host: Maybe[HostPart], verdict: Verdict = "WRONG_DATA", ids: str = "10de:2bb5") -> str:
    mark = Fingerprint(host=host, guest=GUEST)
    both = SetRecord(ids=ids, gpus=("GPU-1", "GPU-2"), clique=0, verdict=verdict, reason="a mirror")
    one = P2pRecord(
        created=WHEN,
        level="quick",
        verdict=verdict,
        reason="a mirror",
        fingerprint=mark,
        digest=mark.digest,
        sets=(both,),
    )
    return render_records({100: (one,)}, WHEN)


def args(plan: Plan) -> str:
    """Return what args is to be; the mark stands for a plan that leaves it alone."""
    change = next((c for c in plan.changes if c.id == "vm.100"), None)
    operation = change.operation if change is not None else None
    assert isinstance(operation, VmSet)
    return "" if "args" in operation.delete else operation.set.get("args", "left alone")


@pytest.mark.parametrize("verdict", ["WRONG_DATA", "HANG"])
def test_a_failure_takes_the_cliques_away(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, with_file: WithFile, verdict: Verdict
) -> None:
    granted = with_vm(epyc, {"args": CLIQUES})
    plan = plan_for(with_file(granted, PLACE, record(host_part(granted, 100), verdict)), p2p="prove")
    assert args(plan) == ""
    assert any("no clique for RTX PRO 6000" in text and verdict in text for text in plan.warnings)
    change = next(c for c in plan.changes if c.id == "vm.100")
    assert "policies.p2p is prove, but no clique may be given here" in change.reason
    assert [e.check for e in plan.expectations if e.check == "guest-p2p"] == []


def test_it_is_not_offered_again_when_it_is_gone(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, with_file: WithFile
) -> None:
    granted = with_vm(epyc, {"args": CLIQUES})
    failed = record(host_part(granted, 100))
    assert args(plan_for(with_file(epyc, PLACE, failed), p2p="prove")) == "left alone"


@pytest.mark.parametrize("change", [{"kernel": "7.0.0-1-pve"}, {"qemu": "11.0.0"}, {"gpus": ("10de:2bb5 other",)}])
def test_another_host_is_a_new_chance(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile, change: dict[str, Any]
) -> None:
    part = host_part(epyc, 100)
    assert not isinstance(part, Unknown)
    before = record(part.model_copy(update=change))
    assert args(plan_for(with_file(epyc, PLACE, before), p2p="prove")) == CLIQUES


@pytest.mark.parametrize("verdict", ["PROVEN", "GRANTED_UNPROVEN", "UNKNOWN"])
def test_what_did_not_fail_is_no_obstacle(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile, verdict: Verdict
) -> None:
    text = record(host_part(epyc, 100), verdict)
    assert args(plan_for(with_file(epyc, PLACE, text), p2p="prove")) == CLIQUES


def test_a_failure_of_another_model_is_no_obstacle(epyc: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    text = record(host_part(epyc, 100), ids="10de:2335")
    assert args(plan_for(with_file(epyc, PLACE, text), p2p="prove")) == CLIQUES


@pytest.mark.parametrize("text", ["{", Unknown(unknown="denied", supply="be root")])
def test_a_record_that_cannot_be_read_gives_no_clique(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile, text: Any
) -> None:
    plan = plan_for(with_file(epyc, PLACE, text), p2p="prove")
    assert args(plan) == "left alone"
    assert any("whether P2P failed here before is not known" in warning for warning in plan.warnings)
