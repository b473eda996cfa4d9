"""Cliques: QEMU's word to the guest's driver that GPUs may reach each other.

Only ``policies.p2p: prove`` gives them, for GPUs of one model in one VM, never for GeForce: there a grant loses
data.  A grant is no proof; verify proves it.  Where it lost data or hung, the host's record says so, and no clique is
given again as long as nothing that matters has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from provision.evidence import Unknown
from provision.guest.record import failure_of
from provision.host.p2p_host import host_part, recorded
from provision.pci.model_names import is_geforce, model_name
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import one_line
from provision.pve.args import Args
from provision.pve.args_words import ArgsReading

_CLIQUE = re.compile(r"device\.hostpci(\d+)(?:\.\d+)?\.x-nv-gpudirect-clique=\d+")
_GLOBAL = re.compile(r"vfio-pci\.x-nv-gpudirect-clique=.*")
_LARGEST = 15


def plan_p2p(draft: Draft) -> None:
    """Want exactly the cliques that the policy gives; others go, a clique on a missing slot stops QEMU."""
    wanted = _wanted(draft) if draft.context.policies.p2p == "prove" else {}
    args = draft.args()
    if args is None:
        return
    args = _without_globals(draft, args)
    words = {_words(draft, index, clique): index for index, clique in wanted.items()}
    new = args
    for old in _present(args):
        if old not in words:
            new = new.remove(*old)
    there = set(_present(new))
    for pair in words:
        if pair not in there:
            new = new.add(*pair)
    draft.set_args(new, _reason(draft, wanted))


def _wanted(draft: Draft) -> dict[int, int]:
    """Return the clique of each slot, none where the VM as a whole may not have any."""
    obstacle = _obstacle(draft)
    if obstacle is None:
        return _cliques(draft)
    draft.keep("P2P", f"no clique: {obstacle}")
    draft.warn(f"policies.p2p is prove, but no clique is given: {obstacle}")
    return {}


def _obstacle(draft: Draft) -> str | None:
    """Return what keeps a grant from being kept or seen, whatever the GPUs are."""
    if "viommu=" in (draft.get("machine") or ""):
        return "with a virtual IOMMU a GPU reaches another only where the guest maps it; remove viommu from machine"
    if (draft.get("cpu") or "").removeprefix("cputype=").startswith("custom-"):
        return "a custom CPU model may hide the hypervisor, and then the guest's driver ignores the grant"
    for slot in draft.target.vm.hostpci:
        if "mdev" in slot.options and slot.index in {s.index for s in draft.target.slots}:
            return f"hostpci{slot.index} is a virtual GPU, which has no P2P over PCI Express"
    shares = [s.index for s in draft.target.slots if [t.mapping for t in draft.target.slots].count(s.mapping) > 1]
    if shares:
        return "slots share a mapping: which GPU is in which slot is not known"
    return None


def _without_globals(draft: Draft, args: Args) -> Args:
    """Remove the grant to every passed-through device: QEMU does not start where one of them is no NVIDIA GPU."""
    new = args
    for value in ArgsReading.of(args).values_of("global"):
        if _GLOBAL.fullmatch(value):
            new = new.remove("-global", value)
    draft.set_args(
        new, "args: -global vfio-pci.x-nv-gpudirect-clique goes: it reaches every device, not the GPUs alone"
    )
    return new


def _reason(draft: Draft, wanted: Mapping[int, int]) -> str:
    if wanted:
        sets = len(set(wanted.values()))
        cliques = "one clique" if sets == 1 else f"{sets} cliques"
        return f"args: policies.p2p is prove: {len(wanted)} GPUs in {cliques}, not proven until verify says so"
    if draft.context.policies.p2p == "prove":
        return "args: policies.p2p is prove, but no clique may be given here"
    return "args: policies.p2p is off: no clique"


def _cliques(draft: Draft) -> dict[int, int]:
    """Return the clique of each slot."""
    models: dict[str, list[int]] = {}
    gpus = {gpu.bdf: gpu for gpu in draft.target.gpus}
    for slot in draft.target.slots:
        models.setdefault(gpus[slot.bdf].ids, []).append(slot.index)
    found: dict[int, int] = {}
    number = 0
    for ids, indices in sorted(models.items()):
        refusal = _refusal(ids, len(indices)) or _virtual(draft, indices) or _failed_before(draft, ids)
        if refusal or number > _LARGEST:
            draft.keep(f"P2P of {model_name(ids) or ids}", refusal or "a VM has 16 cliques at most")
            continue
        found.update(dict.fromkeys(indices, number))
        number += 1
    return found


def _refusal(ids: str, count: int) -> str:
    if count < 2:
        return "one GPU of this model: there is no pair"
    geforce = is_geforce(ids)
    if geforce is None:
        return f"pvectl does not know {ids}, and a GeForce must never get a clique: its grant loses data"
    return "a GeForce never gets a clique: its grant loses data" if geforce else ""


def _failed_before(draft: Draft, ids: str) -> str:
    """Return why no clique is given to GPUs of a model again, empty where nothing speaks against it."""
    model = draft.context.model
    records = recorded(model, draft.vmid)
    if isinstance(records, Unknown):
        refusal = f"whether P2P failed here before is not known: {records.unknown}; {records.supply}"
    else:
        failure = failure_of(records, host_part(model, draft.vmid), ids)
        if failure is None:
            return ""
        refusal = (
            f"{failure.verdict} at {failure.created} (fingerprint {failure.digest}): {failure.reason}; another kernel, "
            "QEMU, driver or VBIOS is a new chance: pvectl p2p shows a change inside the guest"
        )
    draft.warn(f"no clique for {model_name(ids) or ids}: {refusal}")
    return refusal


def _virtual(draft: Draft, indices: list[int]) -> str:
    bdfs = {slot.bdf for slot in draft.target.slots if slot.index in indices}
    virtual = [gpu.bdf for gpu in draft.target.gpus if gpu.bdf in bdfs and gpu.physfn is not None]
    return f"{virtual[0]} is or may be a virtual function, which has no P2P" if virtual else ""


def _present(args: Args) -> tuple[tuple[str, str], ...]:
    values = args.values
    return tuple((a, b) for a, b in pairwise(values) if a == "-set" and _CLIQUE.fullmatch(b))


def _words(draft: Draft, index: int, clique: int) -> tuple[str, str]:
    text = one_line(draft.context.render, "vm/clique.j2", {"index": index, "clique": clique})
    first, second = Args.parse(text).values
    return first, second
