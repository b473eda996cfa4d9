"""A VM that a run makes: made once, started, and destroyed by rollback unless somebody else has started it."""

from __future__ import annotations

from typing import Any

import pytest

from provision.apply import vm_create
from provision.apply.link import Link
from provision.errors import PvectlError, StalePlan
from provision.plan.digests import ABSENT
from provision.plan.model import Plan, VmCreate

from .conftest import Bench, FakePve, Guest, basis, change

OPTIONS = {"name": "new", "memory": "4096", "scsi0": "local-lvm:0,import-from=local:import/x.qcow2"}


def plan_of(bench: Bench, **options: str) -> Plan:
    found = basis(bench.host)
    operation = VmCreate(vmid=200, set={**OPTIONS, **options}, grow_to="64G")
    return Plan(
        host="pve1",
        basis=found.model_copy(update={"digests": {"vm/200": ABSENT}}),
        changes=(change("vm.200", operation),),
        unchanged=(),
        expectations=(),
        gpus=(),
        starts_guests=(200,),
    )


def test_it_is_made_grown_and_started(bench: Bench) -> None:
    outcome = bench.apply(plan_of(bench))
    assert outcome.status == "done"
    assert bench.host.guests[200].running
    assert [call for call in bench.host.calls if "vm_resize 200" in call]


def test_rollback_destroys_it(bench: Bench) -> None:
    bench.apply(plan_of(bench))
    bench.rollback()
    assert 200 not in bench.host.guests
    assert bench.rollback().status == "nothing"


def test_what_somebody_else_started_stays(bench: Bench) -> None:
    bench.apply(plan_of(bench))
    bench.host.starts[200] += 1
    with pytest.raises(StalePlan) as refused:
        bench.rollback()
    assert any("started since by someone else" in line for line in refused.value.moved)
    assert 200 in bench.host.guests


def test_a_password_is_refused_whoever_wrote_the_plan(bench: Bench) -> None:
    with pytest.raises(PvectlError, match="cipassword"):
        bench.apply(plan_of(bench, cipassword="x"))


@pytest.mark.parametrize("way", ["controller dies after", "connection cut after", "controller dies before"])
def test_survival(bench: Bench, way: str) -> None:
    calls = _calls_of_a_whole_run()
    for at in range(calls):
        here = Bench()
        stopped: Any = here.broken(at, way, lambda here=here: here.apply(plan_of(here)))
        if isinstance(stopped, BaseException):
            _go_on(here)
        assert here.host.guests[200].values["name"] == "new"
        assert here.host.guests[200].values["scsi0"] == "local-lvm:vm-200-disk-0,size=64G"


def linked(bench: Bench) -> Link:
    return Link(bench.connect(), FakePve(bench.host), bench.connect, lambda _: FakePve(bench.host))


def test_a_disk_of_its_size_is_not_grown_again(bench: Bench) -> None:
    bench.apply(plan_of(bench))
    bench.host.calls.clear()
    operation = VmCreate(vmid=200, set=OPTIONS, grow_to="64G")
    link = linked(bench)
    assert vm_create.is_done(operation, vm_create.observe(operation, link))
    larger = operation.model_copy(update={"grow_to": "32G"})
    vm_create.act(larger, link, lambda _: None)
    assert not [call for call in bench.host.calls if "vm_resize" in call or "vm_create" in call]


def test_what_a_run_left_half_made_is_completed(bench: Bench) -> None:
    operation = VmCreate(vmid=200, set={**OPTIONS, "args": "-cpu host"}, grow_to="64G")
    link = linked(bench)
    bench.host.guests[200] = Guest(values={"name": "new", "memory": "4096", "scsi0": "local-lvm:vm-200-disk-0,size=4G"})
    state = vm_create.observe(operation, link)
    assert (vm_create.is_ready(operation, state), vm_create.is_done(operation, state)) == (True, False)
    vm_create.act(operation, link, lambda _: None)
    assert bench.host.guests[200].values["args"] == "-cpu host"
    assert vm_create.is_done(operation, vm_create.observe(operation, link))


def test_a_vm_of_somebody_else_is_not_completed(bench: Bench) -> None:
    operation = VmCreate(vmid=200, set=OPTIONS)
    bench.host.guests[200] = Guest(values={"name": "theirs", "memory": "4096"})
    link = linked(bench)
    assert not vm_create.is_ready(operation, vm_create.observe(operation, link))


def _calls_of_a_whole_run() -> int:
    bench = Bench()
    bench.apply(plan_of(bench))
    return len(bench.host.calls)


def _go_on(bench: Bench) -> None:
    try:
        bench.resume()
    except PvectlError:
        bench.apply(plan_of(bench))
    if 200 not in bench.host.guests:
        bench.apply(plan_of(bench))
