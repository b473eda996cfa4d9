"""No lockout: nothing is planned that takes a device which the host itself lives on.

Proxmox binds the whole IOMMU group of a passed-through device to vfio-pci when the VM starts and never gives it
back, so the group counts, as it is now and as the plan's kernel command line will make it.  What is not
known is refused: the network and the disks have no override, the console has ``policies.console``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from provision.errors import GuardRefused
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.guard_console import console
from provision.plan.guard_hit import READ_AS_ROOT, GuardHit, Vital, missing

Groups = tuple[tuple[str, ...], ...]


def guard(model: HostModel, taken: Sequence[str], future: Maybe[Groups], policies: Policies) -> tuple[GuardHit, ...]:
    """Return every reason why the devices ``taken`` (BDFs) must not go to a guest; empty where there is none.

    ``future`` holds the groups that the kernel will build after this plan's next boot.
    """
    if not taken:
        return ()
    leaving = {bdf for one in taken for _, group in _groups_of(model, one, future) for bdf in group}
    vital = [*_network(model), *_disks(model), *console(model, policies, leaving)]
    needed: dict[str, list[Vital]] = {}
    hits: list[GuardHit] = []
    for item in vital:
        if isinstance(item, GuardHit):
            hits.append(item)
        else:
            needed.setdefault(item.bdf, []).append(item)
    hits += _unknown_groups(model, taken, future)
    for bdf in taken:
        for group, members in _groups_of(model, bdf, future):
            hits += [
                GuardHit(v.kind, bdf, member, group, v.reason) for member in members for v in needed.get(member, ())
            ]
    return tuple(_without_repeats(hits))


def refuse(name: str, hits: Sequence[GuardHit]) -> None:
    """Raise GuardRefused where there are hits, naming each device, group and reason."""
    if not hits:
        return
    lines = "".join(f"\n  - {hit}" for hit in hits)
    raise GuardRefused(f"Unable to plan for {name}: the host itself would lose what it lives on{lines}", _hint(hits))


def _hint(hits: Sequence[GuardHit]) -> str:
    supply = next((hit.supply for hit in hits if hit.supply), "")
    needed = list(dict.fromkeys(h.taken for h in hits if h.kind in ("network", "disk") and h.taken.endswith(".0")))
    advice = []
    if any(hit.kind in ("network", "disk") for hit in hits):
        advice.append(
            f"leave {'these GPUs' if len(needed) > 1 else 'that GPU'} out "
            f"(gpus: {{all but: [{', '.join(needed) or 'ADDRESS'}]}}), "
            "or move one of the two cards to a slot with a group of its own"
        )
    if any(hit.kind == "console" for hit in hits):
        what = "accept the loss of the display" if advice else "accept it"
        advice.append(f"{what} with policies.console: serial, bmc or headless once another way in was tried")
    if advice:
        return "; ".join(advice)
    return supply or READ_AS_ROOT


def _network(model: HostModel) -> Iterator[Vital | GuardHit]:
    if isinstance(model.interfaces, Unknown):
        yield missing("the host's network interfaces are", model.interfaces)
        return
    for interface in model.interfaces:
        if not interface.uses:
            continue
        uses = ", ".join(interface.uses)
        if isinstance(interface.bdf, Unknown):
            yield missing(f"the device behind {interface.name} ({uses}) is", interface.bdf)
        elif interface.bdf is not None:
            for bdf in (interface.bdf, *_physical(model, interface.bdf)):
                yield Vital(bdf, "network", f"carries the host's network: {interface.name} ({uses})")


def _physical(model: HostModel, bdf: str) -> tuple[str, ...]:
    """A virtual function lives on its physical one."""
    function = model.function(bdf)
    return (function.physfn,) if function is not None and isinstance(function.physfn, str) else ()


def _disks(model: HostModel) -> Iterator[Vital | GuardHit]:
    if isinstance(model.disks, Unknown):
        yield missing("what the host's disks are used for is", model.disks)
        return
    for disk in model.disks:
        if not disk.uses:
            continue
        uses = ", ".join(disk.uses)
        if isinstance(disk.bdf, Unknown):
            yield missing(f"the device behind disk {disk.name} ({uses}) is", disk.bdf)
        elif disk.bdf is not None:
            yield Vital(disk.bdf, "disk", f"holds disk {disk.name} of the host ({uses})")


def _unknown_groups(model: HostModel, taken: Sequence[str], future: Maybe[Groups]) -> Iterator[GuardHit]:
    for bdf in taken:
        function = model.function(bdf)
        if function is not None and isinstance(function.iommu_group, Unknown):
            yield missing(f"the IOMMU group of {bdf} is", function.iommu_group)
    if isinstance(future, Unknown):
        yield missing("the IOMMU groups after this plan's boot are", future)


def _groups_of(model: HostModel, bdf: str, future: Maybe[Groups]) -> Iterator[tuple[str, tuple[str, ...]]]:
    now = model.group_of(bdf)
    members_now = now.members if now is not None else (bdf,)
    yield (f"IOMMU group {now.number} (now)" if now is not None else ""), members_now
    if not isinstance(future, Unknown):
        for members in future:
            if bdf in members and set(members) != set(members_now):
                yield "its IOMMU group after this plan's boot", members


def _without_repeats(hits: Iterable[GuardHit]) -> Iterator[GuardHit]:
    """Once for each card and reason, whatever the number of its functions."""
    seen: set[tuple[str, str, str]] = set()
    for hit in hits:
        key = (hit.taken.rpartition(".")[0], hit.device, hit.reason)
        if key not in seen:
            seen.add(key)
            yield hit
