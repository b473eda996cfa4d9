"""One device, several VMs: found across the configurations of a node.

Such VMs may exist; only one of them can run at a time.  A stopped one counts too: its backup starts it paused, with
all its devices reserved, bound and reset (qemu-server src/PVE/VZDump/QemuServer.pm).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from provision.evidence import Frozen
from provision.pve.model import HostPci, PciMapping
from provision.pve.vm_config import hostpci_slots


class Conflict(Frozen):
    """VMs that want the same device, or more devices of a pool than it has."""

    subject: str
    """Address as written first (``0000:41:00``), or ``mapping rtx6000``."""
    vmids: tuple[int, ...]
    text: str


class _Claim(Frozen):
    vmid: int
    key: str
    paths: tuple[str, ...]


def conflicts(
    configs: Mapping[int, Mapping[str, str]], mappings: Sequence[PciMapping] = (), node: str | None = None
) -> tuple[Conflict, ...]:
    """Return every conflict between VMs of one node; ``configs`` are live options by VM id.

    A mapping that is not among ``mappings`` stands for an unknown device: it conflicts with nothing that is known.
    ``node`` chooses the entries; without one all count.
    """
    by_id = {mapping.id: _alternatives(mapping, node) for mapping in mappings}
    claims = [claim for vmid, options in sorted(configs.items()) for claim in _claims(vmid, options, by_id)]
    return (*_shared(claims), *_pools(configs, by_id))


def _alternatives(mapping: PciMapping, node: str | None) -> tuple[tuple[str, ...], ...]:
    own = (entry for entry in mapping.entries if node in (None, entry.node))
    return tuple(tuple(entry.path.split(";")) for entry in own)


def _claims(vmid: int, options: Mapping[str, str], by_id: Mapping[str, Sequence[tuple[str, ...]]]) -> Iterator[_Claim]:
    """Yield what a VM surely takes: raw devices, and mappings with a single device."""
    for slot in hostpci_slots(options):
        if slot.host is not None:
            yield _Claim(vmid=vmid, key=f"hostpci{slot.index}", paths=raw_paths(slot))
        elif slot.mapping is not None and len(by_id.get(slot.mapping, ())) == 1:
            yield _Claim(vmid=vmid, key=f"hostpci{slot.index}", paths=by_id[slot.mapping][0])


def raw_paths(slot: HostPci) -> tuple[str, ...]:
    """Return the addresses of a raw slot with their domain."""
    words = (slot.host or "").lower().split(";")
    return tuple(word if word.count(":") == 2 else f"0000:{word}" for word in words)


def _shared(claims: Sequence[_Claim]) -> Iterator[Conflict]:
    seen: list[str] = []
    for claim in claims:
        for path in claim.paths:
            if any(_overlap(path, other) for other in seen):
                continue
            holders = [c for c in claims if any(_overlap(path, other) for other in c.paths)]
            vmids = tuple(dict.fromkeys(c.vmid for c in holders))
            if len(vmids) > 1:
                seen.append(path)
                yield Conflict(subject=path, vmids=vmids, text=_text(f"{path} is passed to", vmids))


def _pools(
    configs: Mapping[int, Mapping[str, str]], by_id: Mapping[str, Sequence[tuple[str, ...]]]
) -> Iterator[Conflict]:
    wanted: dict[str, list[int]] = {}
    for vmid, options in sorted(configs.items()):
        for slot in hostpci_slots(options):
            if slot.mapping is not None:
                wanted.setdefault(slot.mapping, []).append(vmid)
    for name, users in wanted.items():
        have, vmids = len(by_id.get(name, ())), tuple(dict.fromkeys(users))
        if 1 < have < len(users) and len(vmids) > 1:
            what = f"{len(users)} slots want one of the {have} devices of mapping {name}:"
            yield Conflict(subject=f"mapping {name}", vmids=vmids, text=_text(what, vmids))


def _text(what: str, vmids: Iterable[int]) -> str:
    names = " and ".join(f"VM {vmid}" for vmid in vmids)
    return (
        f"{what} {names}: they cannot run together, and a backup of a stopped one starts it with its devices, "
        "so it fails while another runs, and takes the device while none does"
    )


def _overlap(one: str, other: str) -> bool:
    """A path without function is the whole device."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
