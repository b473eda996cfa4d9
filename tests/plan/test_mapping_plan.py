"""Plans of mappings alone: repair over nodes, drop, delete, adopt, split; nothing that the host lives on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import GuardRefused, Refused, UsageError
from provision.host.model import HostModel
from provision.pci.identity import identity
from provision.pci.model import Identity
from provision.plan.mapping_adopt import adopt, adopt_plan
from provision.plan.mapping_plan import Ground, left_empty, repair_plan, split_plan
from provision.plan.model import FileWrite, MappingDelete, MappingPut
from provision.plan.plan_needs import guest_needs, plan_needs, standing_needs
from provision.pve.identities import merge
from provision.pve.mapping import MappingFile, parse_entry
from provision.pve.mapping_advice import advice
from provision.pve.mapping_cluster import NodeFacts, repair_cluster
from provision.pve.mapping_split import split
from provision.pve.model import PciMapping

GPU0, GPU1 = "0000:01:00.0", "0000:21:00.0"


def entry(model: HostModel, bdf: str, *, group: int | None = None, path: str = "", node: str = "pve1") -> str:
    function = model.function(bdf)
    assert function is not None
    number = function.iommu_group if group is None else group
    sub = function.subsystem_ids
    return f"id={function.ids},iommugroup={number},node={node},path={path or bdf},subsystem-id={sub}"


def mapping(id: str, *entries: str) -> PciMapping:
    return MappingFile.parse(f"{id}\n" + "".join(f"\tmap {text}\n" for text in entries)).mappings[0]


def facts(model: HostModel, node: str = "pve1", identities: dict[str, Identity] | None = None) -> NodeFacts:
    groups = {f.bdf: f.iommu_group for f in model.pci if f.iommu_group is None or isinstance(f.iommu_group, int)}
    return NodeFacts(node=node, functions=model.pci, identities=identities or {}, groups=groups)


def with_mappings(model: HostModel, *mappings: PciMapping) -> HostModel:
    return model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"mappings": mappings})})


def ground(model: HostModel) -> Ground:
    return Ground("pve1", "pve1", model)


def who(model: HostModel, bdf: str) -> Identity:
    function = model.function(bdf)
    assert function is not None
    found = identity(function, model.pci)
    assert isinstance(found, Identity)
    return found


def test_each_node_by_its_own_facts(epyc: HostModel) -> None:
    one = mapping(
        "gpu-0", entry(epyc, GPU0, group=1), entry(epyc, GPU1, group=2, node="pve2"), entry(epyc, GPU0, node="x")
    )
    both = repair_cluster(one, [facts(epyc), facts(epyc, "pve2")])
    assert [e.kind for e in both.entries] == ["group-only", "group-only", "other-node"]
    alone = repair_cluster(one, [facts(epyc)])
    assert [e.kind for e in alone.entries] == ["group-only", "other-node", "other-node"]
    assert alone.new_entries[1:] == tuple(e.raw for e in one.entries)[1:]
    plan = repair_plan(ground(with_mappings(epyc, one)), [both])
    (change,) = plan.changes
    assert isinstance(change.operation, MappingPut)
    assert len(change.operation.entries) == 3
    assert [row.bdf for row in plan.gpus] == [GPU0], "rows are those of this node"
    assert plan.basis.digests["mapping/gpu-0"]


def test_the_table_tells_the_mapping_its_group_and_who_uses_it(epyc: HostModel) -> None:
    pool = mapping("rtx6000", entry(epyc, GPU0, group=1), entry(epyc, GPU1, group=2))
    spare = mapping("spare", entry(epyc, GPU0, group=7))
    model = with_mappings(epyc, spare, pool)
    rows = repair_plan(ground(model), [repair_cluster(pool, [facts(epyc)])]).gpus
    assert [(row.bdf, row.mapping_now, row.mapping, row.group_mapped, row.vmid) for row in rows] == [
        (GPU0, "rtx6000", "rtx6000", 1, 100),
        (GPU1, "rtx6000", "rtx6000", 2, 100),
    ]
    parts = split(pool, "pve1", epyc.pci, {}, facts(epyc).groups, prefix="gpu")
    assert [row.mapping for row in split_plan(ground(with_mappings(epyc)), pool, parts).gpus] == ["gpu-0", "gpu-1"]


def test_assigned_by_the_user(epyc: HostModel) -> None:
    lost = entry(epyc, GPU0, path="0000:99:00.0")
    one = mapping("gpu-0", lost)
    (refused,) = repair_cluster(one, [facts(epyc)]).entries
    assert refused.kind == "ambiguous"
    assert "--assign gpu-0:1=0000:01:00.0" in advice(refused, "gpu-0", 1)
    (assigned,) = repair_cluster(one, [facts(epyc)], {0: GPU1}).entries
    assert (assigned.kind, assigned.bdfs) == ("assigned", (GPU1,))
    parsed = parse_entry(assigned.new or "")
    assert parsed is not None
    assert (parsed.path, parsed.description) == (GPU1, who(epyc, GPU1).short())
    for number, bdf in ((1, GPU0), (0, "0000:99:00.0"), (0, "0000:00:00.0")):
        with pytest.raises(UsageError, match="Unable to assign"):
            repair_cluster(one, [facts(epyc)], {number: bdf})
    two = mapping("gpu-0", lost, lost)
    with pytest.raises(UsageError, match="assigned twice"):
        repair_cluster(two, [facts(epyc)], {0: GPU1, 1: GPU1})
    taken = repair_cluster(mapping("gpu-0", entry(epyc, GPU0), lost), [facts(epyc)], {1: GPU0})
    assert [e.kind for e in taken.entries] == ["ambiguous", "assigned"], "the user's word counts first"


def test_gone_entries_stay_until_they_are_dropped_and_no_map_is_left_empty(epyc: HostModel) -> None:
    gone = "id=10de:1111,iommugroup=9,node=pve1,path=0000:98:00.0,subsystem-id=10de:204e"
    mixed, only = mapping("mixed", entry(epyc, GPU0), gone), mapping("only", gone)
    results = [repair_cluster(one, [facts(epyc)]) for one in (mixed, only)]
    model = ground(with_mappings(epyc, mixed, only))
    assert repair_plan(model, results).is_empty
    assert left_empty(results) == ("only",)
    with pytest.raises(Refused, match="none of its devices is left"):
        repair_plan(model, results, drop_gone=True)
    plan = repair_plan(model, results, drop_gone=True, delete_empty=True)
    put, delete = (change.operation for change in plan.changes)
    assert isinstance(put, MappingPut)
    assert put.entries == (entry(epyc, GPU0),)
    assert isinstance(delete, MappingDelete)
    assert delete.before == (gone,)


def test_an_entry_never_ends_on_the_hosts_own_network_card(epyc: HostModel) -> None:
    interfaces = epyc.interfaces
    assert isinstance(interfaces, tuple)
    nic = next(one.bdf for one in interfaces if one.uses and isinstance(one.bdf, str))
    like = [f for f in epyc.pci if f.ids == next(g.ids for g in epyc.pci if g.bdf == nic)]
    model = epyc.model_copy(update={"pci": tuple(f for f in epyc.pci if f not in like or f.bdf == nic)})
    one = mapping("nic", entry(model, nic, path="0000:99:00.0"))
    result = repair_cluster(one, [facts(model)])
    assert [e.kind for e in result.entries] == ["moved-pool"], "the only card of its kind"
    with pytest.raises(GuardRefused, match="network"):
        repair_plan(ground(with_mappings(model, one)), [result])


def test_adopt_records_who_is_there_and_describes_what_is_valid(epyc: HostModel) -> None:
    one = mapping("gpu-0", entry(epyc, GPU0) + ",description=my words", entry(epyc, GPU1), entry(epyc, GPU0, node="x"))
    stale = mapping("stale", entry(epyc, GPU1, group=999))
    model = ground(with_mappings(epyc, one, stale))
    found = adopt(model, [one, stale], {})
    assert set(found.changed) == {gpu.bdf for gpu in epyc.gpus()}
    plan = adopt_plan(model, [one, stale], found, "{}")
    record, described = (change.operation for change in plan.changes)
    assert isinstance(record, FileWrite)
    assert isinstance(described, MappingPut)
    assert described.entries[0] == one.entries[0].raw
    assert described.entries[1].endswith(f"description={who(epyc, GPU1).short()}")
    assert described.entries[2] == one.entries[2].raw
    assert any("stale is not valid" in warning for warning in plan.warnings)
    again = adopt(model, [one], found.identities)
    assert again.changed == ()
    swapped = {GPU0: who(epyc, GPU1)}
    with pytest.raises(Refused, match="another card") as caught:
        adopt(model, [one], swapped)
    assert "--replace" in caught.value.hint
    assert adopt(model, [one], swapped, replace=True).identities[GPU0] == who(epyc, GPU0)


def test_a_card_stands_in_the_record_once(epyc: HostModel) -> None:
    card = who(epyc, GPU0)
    assert merge({"0000:99:00.0": card}, {GPU0: card}) == {GPU0: card}
    bare = card.model_copy(update={"dsn": None})
    assert merge({"0000:99:00.0": bare, GPU1: card}, {GPU0: bare}) == {GPU1: card, GPU0: bare}


def test_split_makes_what_is_missing_and_refuses_other_names(epyc: HostModel) -> None:
    pool = mapping("pool", entry(epyc, GPU0), entry(epyc, GPU1))
    here = facts(epyc)
    parts = split(pool, "pve1", here.functions, {}, here.groups, prefix="gpu")
    plan = split_plan(ground(with_mappings(epyc, pool)), pool, parts)
    assert [change.id for change in plan.changes] == ["mapping.gpu-0", "mapping.gpu-1"]
    half = mapping("gpu-0", entry(epyc, GPU0))
    assert [c.id for c in split_plan(ground(with_mappings(epyc, pool, half)), pool, parts).changes] == ["mapping.gpu-1"]
    with pytest.raises(Refused, match="gpu-0 exists"):
        split_plan(ground(with_mappings(epyc, pool, mapping("gpu-0", entry(epyc, GPU1)))), pool, parts)


def test_what_a_plan_needs(epyc: HostModel, plan_for: Callable[..., Any]) -> None:
    plan = plan_for(epyc)
    needs = {need for _, found in plan_needs(plan) for need in found} | set(guest_needs(plan))
    assert {need.operation for need in needs if need.who == "root-shell"} == {"host.file", "host.command"}
    assert ("/mapping/pci", "Mapping.Modify") in {(need.path, need.privilege) for need in needs}
    assert any(need.operation == "vm.set hostpci0" and need.path == "/vms/100" for need in needs)
    assert tuple(need.path for need in standing_needs("pve1", ()))[:2] == ("/mapping/pci", "/")


def test_the_unit_is_files_alone(epyc: HostModel, plan_for: Callable[..., Any], with_file: Callable[..., Any]) -> None:
    plan = plan_for(epyc, mapping_unit="repair")
    files = {c.operation.path: c for c in plan.changes if c.id.startswith("mapping-unit.")}
    assert list(files) == [
        "/var/lib/pvectl/mapping_unit.py",
        "/etc/systemd/system/pvectl-mapping.service",
        "/etc/systemd/system/pve-guests.service.d/pvectl-mapping.conf",
        "/etc/systemd/system/pve-ha-lrm.service.d/pvectl-mapping.conf",
    ]
    unit = files["/etc/systemd/system/pvectl-mapping.service"].operation.content
    assert "After=pve-cluster.service" in unit
    assert "Before=pve-guests.service pve-ha-lrm.service" in unit
    assert "--raw log" in unit
    assert not any(change.needs_reboot for change in files.values())
    assert len(files["/var/lib/pvectl/mapping_unit.py"].diff.splitlines()) == 1
    there = with_file(epyc, "/etc/systemd/system/pvectl-mapping.service", unit)
    gone = [c for c in plan_for(there).changes if c.id.startswith("mapping-unit.")]
    assert [change.operation.op for change in gone] == ["file.remove"]


def test_a_raw_slot_is_named_beside_the_unit(
    epyc: HostModel, plan_for: Callable[..., Any], with_vm: Callable[..., Any]
) -> None:
    raw = with_vm(epyc, {"hostpci8": "0000:42:00.1"})
    assert any("hostpci8 by raw address" in warning for warning in plan_for(raw, mapping_unit="repair").warnings)
    assert not any("raw address" in warning for warning in plan_for(raw).warnings)
