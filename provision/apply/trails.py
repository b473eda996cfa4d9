"""What each object was through a run, read from its journal: as found, as each step left it, as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from provision.apply.files import same_file
from provision.apply.host_files import read_files
from provision.apply.link import Link
from provision.apply.objects import same_entries, same_option
from provision.apply.records import FileFacts, Intent, MappingFacts, State, VmFacts
from provision.apply.runs import Run
from provision.remote.session import FileMeta

Value = FileMeta | MappingFacts | str | None
"""State of a file, a mapping or one option of a VM (``None``: unset)."""


class Key(NamedTuple):
    kind: Literal["file", "mapping", "vm"]
    name: str
    """Path, mapping id or VM id."""
    option: str = ""

    def __str__(self) -> str:
        if self.kind == "file":
            return self.name
        return f"{self.kind}/{self.name} {self.option}".rstrip()


@dataclass
class Trail:
    key: Key
    values: list[Value]
    """First as the run found it, then as each step left it."""
    backup: str | None = None
    missing_folders: tuple[str, ...] = ()
    needs_reboot: bool = False
    last: int = 0
    """Place of the last step that touched it."""
    now: Value = field(default=None)

    @property
    def is_back(self) -> bool:
        return _same(self.key, self.now, self.values[0])

    @property
    def is_ours(self) -> bool:
        """Whether it is as the run found it or as one of its steps left it."""
        return any(_same(self.key, self.now, value) for value in self.values)


def _same(key: Key, one: Value, other: Value) -> bool:
    if isinstance(one, FileMeta) and isinstance(other, FileMeta):
        return same_file(one, other)
    if isinstance(one, MappingFacts) and isinstance(other, MappingFacts):
        described = (one.description or "") == (other.description or "")
        return same_entries(one.entries, other.entries) and described
    if isinstance(one, (FileMeta, MappingFacts)) or isinstance(other, (FileMeta, MappingFacts)):
        return False
    return same_option(key.option, one, other)


def intents_of(run: Run) -> list[Intent]:
    return [event for event in run.events if isinstance(event, Intent)]


def trails_of(run: Run) -> dict[Key, Trail]:
    """Return every object that the run touched or was about to touch."""
    trails: dict[Key, Trail] = {}
    for at, intent in enumerate(intents_of(run)):
        receipt = run.receipt(intent.step)
        after = _parts(receipt.after if receipt else intent.expected)
        for key, value in _parts(intent.before).items():
            trail = trails.setdefault(key, Trail(key, [value], intent.backup, _missing(intent.before)))
            trail.values.append(after[key])
            trail.needs_reboot |= intent.needs_reboot
            trail.last = at
    return trails


def _parts(state: State) -> dict[Key, Value]:
    """Return the objects of a state."""
    if isinstance(state, FileFacts):
        return {Key("file", state.meta.path): state.meta}
    if isinstance(state, MappingFacts):
        return {Key("mapping", state.id): state}
    if isinstance(state, VmFacts):
        return {Key("vm", str(state.vmid), option): value for option, value in state.values.items()}
    return {}


def _missing(state: State) -> tuple[str, ...]:
    return state.missing_folders if isinstance(state, FileFacts) else ()


def observe_now(trails: Iterable[Trail], link: Link) -> None:
    """Read every object as it is now."""
    by_kind: dict[str, list[Trail]] = {"file": [], "mapping": [], "vm": []}
    for trail in trails:
        by_kind[trail.key.kind].append(trail)
    _files_now(by_kind["file"], link)
    _mappings_now(by_kind["mapping"], link)
    for vmid in sorted({int(trail.key.name) for trail in by_kind["vm"]}):
        values = link.pve.vm_config(vmid).values
        for trail in by_kind["vm"]:
            if trail.key.name == str(vmid):
                trail.now = values.get(trail.key.option)


def _files_now(trails: list[Trail], link: Link) -> None:
    if trails:
        found = read_files(link.session, [trail.key.name for trail in trails])
        for trail, (meta, _) in zip(trails, found, strict=True):
            trail.now = meta


def _mappings_now(trails: list[Trail], link: Link) -> None:
    rows = {row.id: row for row in link.pve.mappings()} if trails else {}
    for trail in trails:
        row = rows.get(trail.key.name)
        trail.now = MappingFacts(
            id=trail.key.name,
            entries=row.entries if row else None,
            description=row.description if row else None,
        )
