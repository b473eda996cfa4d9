"""Steps on Proxmox' objects: mappings and options of VMs, compared as Proxmox reads them."""

from __future__ import annotations

from collections.abc import Mapping

from provision.apply.link import Link
from provision.apply.records import MappingFacts, State, VmFacts
from provision.errors import ApplyStopped, PvectlError, StaleDigest
from provision.plan.model import MappingDelete, MappingPut, VmSet
from provision.pve import property_string
from provision.pve.disk_option import is_made_as
from provision.pve.session import MappingRow, VmConfig

TRIES = 3
"""The mapping digest covers every mapping: another one's change is no reason to stop."""


LIVE_OPTIONS: frozenset[str] = frozenset(
    {"description", "hookscript", "name", "onboot", "protection", "shares", "startup", "tags"}
)
"""Options that Proxmox takes over at once also while the VM runs (qemu-server ``$fast_plug_option``)."""


def needs_stop(op: VmSet) -> bool:
    """Whether an option of the step would wait for a cold start of a running VM."""
    return not LIVE_OPTIONS.issuperset(touched(op))


def same_text(one: str | None, other: str | None) -> bool:
    """Whether two option values mean the same to Proxmox: equal text, or equal property strings."""
    if one is None or other is None or one == other:
        return one == other
    a, b = _properties(one), _properties(other)
    return a is not None and a == b


def _properties(text: str) -> dict[str, str] | None:
    if "=" not in text:
        return None
    try:
        return dict(property_string.parse(text, default_key=""))
    except (PvectlError, ValueError):
        return None


def same_entries(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(same_text(a, b) for a, b in zip(one, other, strict=True))


def _row(link: Link, id: str) -> MappingRow | None:
    return next((row for row in link.pve.mappings() if row.id == id), None)


def observe_mapping(op: MappingPut | MappingDelete, link: Link) -> MappingFacts:
    row = _row(link, op.id)
    if row is None:
        return MappingFacts(id=op.id, entries=None)
    return MappingFacts(id=op.id, entries=row.entries, description=row.description)


def mapping_ready(op: MappingPut | MappingDelete, state: State) -> bool:
    return isinstance(state, MappingFacts) and same_entries(state.entries, op.before)


def mapping_done(op: MappingPut | MappingDelete, state: State) -> bool:
    if not isinstance(state, MappingFacts):
        return False
    if isinstance(op, MappingDelete):
        return state.entries is None
    described = op.description is None or (state.description or "") == op.description
    return described and same_entries(state.entries, op.entries)


def mapping_expected(op: MappingPut | MappingDelete, state: State) -> MappingFacts:
    if isinstance(op, MappingDelete):
        return MappingFacts(id=op.id, entries=None)
    kept = state.description if isinstance(state, MappingFacts) else None
    return MappingFacts(id=op.id, entries=op.entries, description=kept if op.description is None else op.description)


def put_mapping(op: MappingPut | MappingDelete, link: Link) -> None:
    """Create, update or delete the mapping; the digest is fetched right before the write."""
    for attempt in range(TRIES):
        row = _row(link, op.id)
        if not same_entries(row.entries if row else None, op.before):
            raise ApplyStopped(
                f"Unable to change mapping {op.id} on {link.session.target}: someone else changed it just now",
                "make a new plan with: pvectl plan",
            )
        try:
            _put(op, link, row)
        except StaleDigest:
            if attempt + 1 == TRIES:
                raise
        else:
            return


def _put(op: MappingPut | MappingDelete, link: Link, row: MappingRow | None) -> None:
    if isinstance(op, MappingDelete):
        link.pve.mapping_delete(op.id)
    elif row is None:
        link.pve.mapping_create(op.id, op.entries, op.description)
    else:
        link.pve.mapping_update(op.id, op.entries, row.digest, op.description)


def touched(op: VmSet) -> tuple[str, ...]:
    return tuple(sorted({*op.set, *op.delete}))


def observe_vm(op: VmSet, link: Link) -> VmFacts:
    config = link.pve.vm_config(op.vmid)
    keys = touched(op)
    values = {key: config.values.get(key) for key in keys}
    return VmFacts(vmid=op.vmid, values=values, waiting=tuple(k for k in keys if k in config.pending))


def vm_ready(op: VmSet, state: State) -> bool:
    """Whether each option is as before the step, or as after it: a token writes risky options one by one."""
    if not isinstance(state, VmFacts) or state.waiting:
        return False
    return _is_on_the_way(op, state.values)


def _is_on_the_way(op: VmSet, values: Mapping[str, str | None]) -> bool:
    return all(
        same_text(values.get(key), op.before.get(key)) or same_option(key, values.get(key), after)
        for key, after in wanted(op).items()
    )


def vm_done(op: VmSet, state: State) -> bool:
    if not isinstance(state, VmFacts) or state.waiting:
        return False
    return all(same_option(key, state.values.get(key), value) for key, value in wanted(op).items())


def wanted(op: VmSet) -> dict[str, str | None]:
    """Return every touched option as the step leaves it; ``None``: unset."""
    return {**op.set, **dict.fromkeys(op.delete)}


def same_option(key: str, one: str | None, other: str | None) -> bool:
    """Like :func:`same_text` of what is there and what was asked for.

    Tags are a list that Proxmox sorts, and writes in lower case; a new disk gets the name of its volume.
    """
    if one is None or other is None:
        return one == other
    if key == "tags":
        return sorted(_tags(one)) == sorted(_tags(other))
    return same_text(one, other) or is_made_as(one, other)


def _tags(text: str) -> set[str]:
    return set(text.lower().replace(",", ";").replace(" ", ";").split(";")) - {""}


def set_vm(op: VmSet, link: Link) -> None:
    """Set and delete options; of a running VM only those that take effect at once."""
    if needs_stop(op) and link.pve.vm_status(op.vmid) != "stopped":
        raise ApplyStopped(
            f"Unable to change VM {op.vmid} on {link.session.target}: it is running, "
            "and its options would wait for a cold start",
            f"shut VM {op.vmid} down",
        )
    for attempt in range(TRIES):
        config = link.pve.vm_config(op.vmid)
        if attempt and not _is_on_the_way(op, config.values):
            raise ApplyStopped(
                f"Unable to change VM {op.vmid} on {link.session.target}: someone else changed it just now",
                "make a new plan with: pvectl plan",
            )
        try:
            _set(op, link, config)
        except StaleDigest:
            # A lock that ended, of a backup or a snapshot, changes the digest too.
            if attempt + 1 == TRIES:
                raise
        else:
            return


def _set(op: VmSet, link: Link, config: VmConfig) -> None:
    values = {key: value for key, value in op.set.items() if not same_option(key, config.values.get(key), value)}
    delete = tuple(key for key in op.delete if key in config.values)
    if values or delete:
        link.pve.vm_set(op.vmid, values, delete, config.digest)
