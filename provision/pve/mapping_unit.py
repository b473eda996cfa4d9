"""At boot, before any guest starts: repair this node's PCI mapping entries where that is certain.

This file runs on the Proxmox host by itself (``python3 -I``, standard library only, Python 3.9 or later) as
pvectl-mapping.service: after pve-cluster, before pve-guests and pve-ha-lrm.  It waits for quorum as they do.

It changes an entry only where the device is the same and its IOMMU group has another number, or where the device
is elsewhere and its recorded identity proves it (serial number, or place in the tree for a device without one).
Everything else is left for a person, as pvectl mapping check explains.  Of pci.cfg only those words change.
Decisions are those of pvectl mapping repair for these two classes.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PCI_CFG = "etc/pve/mapping/pci.cfg"
MEMBERS = "etc/pve/.members"
LOCK = "etc/pve/priv/lock/file-mapping_pci_cfg"
IDENTITY = "var/lib/pvectl/identity.json"
LOG = "var/log/pvectl-mapping.log"
WORK_LIMIT = 5.0
"""Seconds from quorum to the end, whatever happens."""
MEMBERS_LIMIT = 30.0
"""Seconds to wait for a pve-cluster that does not come."""

ONE_PATH = r"[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:.[a-f0-9])?"
IDS = r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}"
FORMATS = {
    "node": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"),
    "id": re.compile(IDS),
    "path": re.compile(rf"(?:{ONE_PATH};)*{ONE_PATH}"),
    "subsystem-id": re.compile(IDS),
    "iommugroup": re.compile(r"[+-]?[0-9]+"),
    "description": re.compile(r"[^\n]{1,4096}"),
}
CONFIG_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]+")
SHORT = re.compile(r"pvectl dsn=(none|[0-9a-f]{16}) at=(\S.*)")
BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
EMPTY_DSN = ("0" * 16, "f" * 16)

UNKNOWN = "?"
"""Stands for a fact that could not be read: equal to nothing."""


class Device(NamedTuple):
    """One PCI function.  ``dsn``, ``subsystem`` and ``group``: ``None`` where it has none, ``?`` where not known."""

    bdf: str
    ids: str
    subsystem: str | None
    dsn: str | None
    path: str
    group: str | None


class Record(NamedTuple):
    """Who a device was when it was recorded."""

    ids: str
    subsystem: str | None
    dsn: str | None
    path: str


class Decision(NamedTuple):
    """What happens to one entry: ``new`` is ``None`` where it is left."""

    old: str
    new: str | None
    kind: str


def parse_entry(raw: str) -> dict[str, str] | None:
    """Return the words of a ``map`` value, ``None`` where Proxmox drops it."""
    found: dict[str, str] = {}
    for part in raw.split(","):
        if not part.strip():
            continue
        key, sign, value = part.partition("=")
        if not sign or not key or not value or key in found:
            return None
        found[key] = value
    if not {"node", "id", "path"} <= set(found):
        return None
    good = all(key in FORMATS and FORMATS[key].fullmatch(value) for key, value in found.items())
    return found if good else None


def paths_of(entry: dict[str, str]) -> list[str]:
    return [path if "." in path else f"{path}.0" for path in entry["path"].split(";")]


def fits(device: Device, ids: str, subsystem: str | None) -> str:
    """Say ``yes``, ``no`` or ``?``: is the device of this model?"""
    if device.ids != ids:
        return UNKNOWN if device.ids == UNKNOWN else "no"
    if subsystem is None or device.subsystem == subsystem:
        return "yes"
    return UNKNOWN if device.subsystem == UNKNOWN else "no"


def matches(record: Record, device: Device) -> str:
    """Say whether ``device`` is the recorded one."""
    model = fits(device, record.ids, record.subsystem)
    if model != "yes":
        return model
    if record.dsn is None and device.dsn not in (None, UNKNOWN):
        return "no"
    now, then = (device.dsn, record.dsn) if record.dsn else (device.path, record.path)
    if now == UNKNOWN:
        return UNKNOWN
    return "yes" if now == then else "no"


def shared_serials(records: dict[str, Record]) -> list[str]:
    """Return serial numbers that two recorded cards have."""
    places: dict[str, set[str]] = {}
    for record in records.values():
        if record.dsn is not None:
            places.setdefault(record.dsn, set()).add(record.path)
    return [dsn for dsn, found in places.items() if len(found) > 1]


class Place(NamedTuple):
    """Where a device is: ``proven`` by identity, ``here`` where nothing was recorded, ``lost``, or ``no``."""

    kind: str
    bdf: str = ""


def locate(
    bdf: str, entry: dict[str, str], devices: dict[str, Device], candidates: list[Record], shared: list[str]
) -> Place:
    """Return where the device is that the entry means by ``bdf``."""
    ids, subsystem = entry["id"].lower(), entry.get("subsystem-id", "").lower() or None
    records = [record for record in candidates if record.ids == ids]
    here = devices.get(bdf)
    if not records:
        fit = "no" if here is None else fits(here, ids, subsystem)
        if fit == "no" and any(fits(device, ids, subsystem) == "yes" for device in devices.values()):
            return Place("lost")
        return Place("here", bdf) if fit == "yes" else Place("no")
    if len(records) == 2 and not same(records[0], records[1]):
        agrees = here is not None and matches(records[0], here) == "yes"
        return Place("proven", bdf) if agrees else Place("no")
    answers = {device.bdf: matches(records[0], device) for device in devices.values()}
    found = [other for other, answer in answers.items() if answer == "yes"]
    if len(found) > 1 or records[0].dsn in shared or UNKNOWN in answers.values():
        found = [other for other in found if devices[other].path == records[0].path != UNKNOWN]
    return Place("proven", found[0]) if len(found) == 1 else Place("no")


def same(one: Record, other: Record) -> bool:
    return one.dsn == other.dsn and (one.dsn is not None or one.path == other.path)


def described(entry: dict[str, str]) -> Record | None:
    match = SHORT.fullmatch(entry.get("description", "").strip())
    if match is None:
        return None
    subsystem = entry.get("subsystem-id", "").lower() or None
    return Record(entry["id"].lower(), subsystem, None if match[1] == "none" else match[1], match[2])


def decide(
    mapping: str, raws: list[str], node: str, devices: dict[str, Device], records: dict[str, Record]
) -> list[Decision]:
    """Return what happens to each entry of one mapping; those of other nodes and those in doubt are left."""
    entries = [parse_entry(raw) for raw in raws]
    own = [n for n, entry in enumerate(entries) if entry is not None and entry["node"] == node]
    shared = shared_serials(records)
    places = {n: _place(mapping, entries[n] or {}, devices, records, shared) for n in own}
    decisions = [Decision(raw, None, "left") for raw in raws]
    taken: set[str] = set()
    for n in sorted(own, key=lambda number: places[number] is None or places[number][0] != "proven"):
        kind, bdfs = places[n]
        if kind not in ("proven", "here") or taken & set(bdfs):
            continue
        taken |= set(bdfs)
        decisions[n] = _judge(raws[n], entries[n] or {}, bdfs, devices)
    return decisions


def _place(
    mapping: str, entry: dict[str, str], devices: dict[str, Device], records: dict[str, Record], shared: list[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the kind and the functions of one entry; a ``;`` list counts only where all of it is known."""
    parts = []
    for number, bdf in enumerate(paths_of(entry)):
        found = [described(entry) if number == 0 else None, records.get(f"{mapping}/{bdf}", records.get(bdf))]
        parts.append(locate(bdf, entry, devices, [record for record in found if record is not None], shared))
    if any(part.kind not in ("proven", "here") for part in parts):
        return "no", ()
    kinds = {part.kind for part in parts}
    return ("here" if "here" in kinds else "proven"), tuple(part.bdf for part in parts)


def _judge(raw: str, entry: dict[str, str], bdfs: tuple[str, ...], devices: dict[str, Device]) -> Decision:
    first = devices[bdfs[0]]
    if UNKNOWN in (first.subsystem, first.group) or first.group is None:
        return Decision(raw, None, "left")
    wanted = {"id": first.ids, "iommugroup": first.group, "subsystem-id": first.subsystem}
    differing = {key for key, value in wanted.items() if entry.get(key) != value}
    old_group = entry.get("iommugroup", "")
    wanted["path"] = _paths(entry, bdfs, devices)
    if list(bdfs) != paths_of(entry):
        return Decision(raw, edit(raw, wanted), "moved-proven")
    if differing == {"iommugroup"} and re.fullmatch(r"0|[1-9][0-9]*", old_group):
        return Decision(raw, edit(raw, wanted), "group-only")
    return Decision(raw, None, "left")


def _paths(entry: dict[str, str], bdfs: tuple[str, ...], devices: dict[str, Device]) -> str:
    """Name the function, except where the entry gives a device with several functions as a whole."""
    found = []
    for old, bdf in zip(entry["path"].split(";"), bdfs):  # noqa: B905 (Python 3.9)
        slot = bdf.rpartition(".")[0]
        is_whole = sum(other.startswith(f"{slot}.") for other in devices) > 1
        found.append(slot if "." not in old and is_whole else bdf)
    return ";".join(found)


def edit(raw: str, wanted: dict[str, str | None]) -> str:
    """Return the entry with these words changed in place, added at the end, or (``None``) taken out."""
    parts = raw.split(",")
    kept = []
    left = dict(wanted)
    for part in parts:
        key = part.partition("=")[0]
        if key not in left:
            kept.append(part)
            continue
        value = left.pop(key)
        if value is not None:
            kept.append(f"{key}={value}")
    return ",".join(kept + [f"{key}={value}" for key, value in left.items() if value is not None])


def repair_text(
    text: str, node: str, devices: dict[str, Device], records: dict[str, Record]
) -> tuple[str, list[tuple[str, Decision]]]:
    """Return pci.cfg with the certain repairs, and each decision that changed a line, with its mapping."""
    lines = text.split("\n")
    changed: list[tuple[str, Decision]] = []
    for name, numbers in sections(lines).items():
        raws = [_map_value(lines[n]) or "" for n in numbers]
        for n, decision in zip(numbers, decide(name, raws, node, devices, records)):  # noqa: B905
            if decision.new is not None and decision.new != decision.old:
                lines[n] = lines[n].replace(decision.old, decision.new)
                changed.append((name, decision))
    return "\n".join(lines), changed


def sections(lines: list[str]) -> dict[str, list[int]]:
    """Return the numbers of the good ``map`` lines of each section; of a doubled one the last counts."""
    found: dict[str, list[int]] = {}
    name: str | None = None
    current: list[int] = []
    for number, line in enumerate(lines):
        if re.match(r"\s*#", line):
            continue
        if line == "":
            name = None
        elif name is None:
            header = re.fullmatch(r"(\S+)\s*", line)
            name, current = (header[1], []) if header else (None, [])
        elif parse_entry(_map_value(line) or "") is not None and CONFIG_ID.fullmatch(name):
            current.append(number)
            found[name] = current
    return found


def _map_value(line: str) -> str | None:
    match = re.fullmatch(r"\s+map\s+(.*\S)\s*", line)
    return match[1] if match else None


class Host:
    """The files of one host below ``root``."""

    def __init__(self, root: str = "/") -> None:
        self.root = Path(root)

    def path(self, name: str) -> Path:
        return self.root / name

    def text(self, name: str) -> str | None:
        try:
            return self.path(name).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return None

    def word(self, name: str) -> str | None:
        text = self.text(name)
        return None if text is None else text.strip()

    def members(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self.text(MEMBERS) or "")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def node(self) -> str:
        name = (self.members() or {}).get("nodename")
        return name if isinstance(name, str) else (self.word("proc/sys/kernel/hostname") or "").split(".")[0]

    def is_quorate(self) -> bool | None:
        """Return ``None`` where pve-cluster does not run."""
        members = self.members()
        if members is None:
            return None
        cluster = members.get("cluster")
        return not isinstance(cluster, dict) or cluster.get("quorate") in (1, True)

    def records(self) -> dict[str, Record]:
        """Return the recorded devices; none where there is no record or it is not as pvectl writes it."""
        try:
            document = json.loads(self.text(IDENTITY) or "")
            if document["schema"] != "pvectl.identity/1":
                return {}
            return {
                bdf: Record(who["ids"], who["subsystem_ids"], who["dsn"], who["path"])
                for bdf, who in document["data"]["devices"].items()
            }
        except (ValueError, KeyError, TypeError):
            return {}

    def devices(self) -> dict[str, Device]:
        folder = self.path("sys/bus/pci/devices")
        names = sorted(one.name for one in folder.iterdir() if BDF.fullmatch(one.name)) if folder.is_dir() else []
        return {name: self._device(name) for name in names}

    def _device(self, bdf: str) -> Device:
        base = f"sys/bus/pci/devices/{bdf}"
        vendor, device = self._hex(f"{base}/vendor"), self._hex(f"{base}/device")
        sub = [self._hex(f"{base}/subsystem_{part}") for part in ("vendor", "device")]
        return Device(
            bdf=bdf,
            ids=f"{vendor}:{device}" if vendor and device else UNKNOWN,
            subsystem=f"{sub[0]}:{sub[1]}" if all(sub) else None,
            dsn=serial_number(self._bytes(f"{base}/config")),
            path=self._place(bdf),
            group=self._group(base),
        )

    def _hex(self, name: str) -> str | None:
        word = self.word(name)
        return word[2:] if word and word.startswith("0x") else None

    def _bytes(self, name: str) -> bytes:
        try:
            return self.path(name).read_bytes()
        except OSError:
            return b""

    def _group(self, base: str) -> str | None:
        try:
            return self.path(f"{base}/iommu_group").readlink().name
        except OSError as error:
            return None if error.errno == errno.ENOENT else UNKNOWN

    def _place(self, bdf: str) -> str:
        """Return host bridge by ACPI path and device.function of each bridge below it, ``?`` where not known."""
        try:
            parts = self.path(f"sys/bus/pci/devices/{bdf}").readlink().parts
        except OSError:
            return UNKNOWN
        roots = [number for number, part in enumerate(parts) if ROOT.fullmatch(part)]
        if not roots:
            return UNKNOWN
        root = parts[roots[-1]]
        is_behind_controller = any(BDF.fullmatch(part) for part in parts[: roots[-1]])
        name = None if is_behind_controller else self.word(f"sys/devices/{root}/firmware_node/path")
        if not name:
            name = root if root == "pci0000:00" else None
        chain = [part for part in parts[roots[-1] + 1 :] if BDF.fullmatch(part)]
        return UNKNOWN if name is None else "/".join([name, *(part.rpartition(":")[2] for part in chain)])


def serial_number(config: bytes) -> str | None:
    """Return the Device Serial Number in configuration space, ``None`` without one, ``?`` where it cannot be read."""
    if len(config) < 64 or config[:64] == b"\xff" * 64:
        return UNKNOWN
    express = _has_express(config)
    if express is None:
        return UNKNOWN
    return _extended_serial(config) if express else None


def _has_express(config: bytes) -> bool | None:
    """Say whether there is a PCI Express capability; ``None`` where the chain breaks before it was met."""
    if not config[0x06] & 0x10:
        return False if len(config) >= 256 else None
    at, seen = config[0x34] & 0xFC, set()
    while at:
        if at in seen or at < 64 or at + 4 > len(config) or config[at] == 0xFF:
            return None
        if config[at] == 0x10:
            return True
        seen.add(at)
        at = config[at + 1] & 0xFC
    return False


def _extended_serial(config: bytes) -> str | None:
    at, seen = 0x100, set()
    while at:
        head = int.from_bytes(config[at : at + 4], "little")
        if at in seen or at < 0x100 or at + 4 > len(config) or head == 0xFFFFFFFF:
            return UNKNOWN
        if head & 0xFFFF == 0x0003:
            return _serial_at(config, at)
        seen.add(at)
        at = head >> 20 & 0xFFC
    return None if len(config) >= 0x1000 else UNKNOWN


def _serial_at(config: bytes, at: int) -> str | None:
    if at + 12 > len(config):
        return UNKNOWN
    low, high = (int.from_bytes(config[at + offset : at + offset + 4], "little") for offset in (4, 8))
    serial = f"{high:08x}{low:08x}"
    return None if serial in EMPTY_DSN else serial


class RawSlot(NamedTuple):
    """A ``hostpciN: host=`` of a VM, and what is wrong with it."""

    vmid: str
    key: str
    bdf: str
    problem: str
    is_certain: bool


def raw_slots(host: Host, node: str, devices: dict[str, Device], records: dict[str, Record]) -> Iterator[RawSlot]:
    """Yield the raw slots whose address does not hold the recorded device."""
    folder = host.path(f"etc/pve/nodes/{node}/qemu-server")
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    for name in (name for name in names if re.fullmatch(r"[1-9][0-9]*\.conf", name)):
        text = host.text(f"etc/pve/nodes/{node}/qemu-server/{name}") or ""
        for key, value in live_options(text).items():
            for bdf in raw_addresses(value) if re.fullmatch(r"hostpci(?:[0-9]|1[0-5])", key) else []:
                problem, is_certain = _raw_problem(bdf, devices, records)
                if problem:
                    yield RawSlot(name[: -len(".conf")], key, bdf, problem, is_certain)


def _raw_problem(bdf: str, devices: dict[str, Device], records: dict[str, Record]) -> tuple[str, bool]:
    """Return what is wrong, and whether it is certain that another device sits there."""
    record, device = records.get(bdf), devices.get(bdf)
    if device is None:
        return f"there is no device at {bdf} any more", False
    if record is None:
        return "", False
    answer = matches(record, device)
    if answer == "yes":
        return "", False
    if answer == UNKNOWN:
        return f"whether {bdf} still holds the recorded device could not be read", False
    return f"{bdf} now holds {device.ids} at {device.path}, recorded was {record.ids} at {record.path}", True


def live_options(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if re.fullmatch(r"\[.*\]\s*", line):
            break
        match = re.fullmatch(r"([a-z][a-z_-]*\d*):\s*(.+?)\s*", line)
        if match:
            found[match[1]] = match[2]
    return found


def raw_addresses(value: str) -> list[str]:
    """Return the functions that a ``host=`` names, in full form; function 0 where none is named."""
    words = [part.partition("=") for part in value.split(",")]
    hosts = [text if sign else key for key, sign, text in words if key == "host" or not sign]
    found = []
    for word in hosts[0].lower().split(";") if hosts else []:
        full = word if word.count(":") == 2 else f"0000:{word}"
        found.append(full if "." in full else f"{full}.0")
    return found


def hold_back(text: str) -> str | None:
    """Return a VM's configuration with ``lock: create`` in the live section; ``None`` where it has a lock already."""
    if "lock" in live_options(text):
        return None
    lines = text.split("\n")
    at = 0
    for number, line in enumerate(lines):
        if re.fullmatch(r"\[.*\]\s*", line):
            break
        key = line.partition(":")[0]
        if re.fullmatch(r"[a-z][a-z_-]*\d*", key) or line.startswith("#"):
            if not line.startswith("#") and key > "lock":
                at = number
                break
            at = number + 1
    return "\n".join([*lines[:at], "lock: create", *lines[at:]])


class Unit:
    """One run of the program."""

    def __init__(self, host: Host, say: Callable[[str], None], *, holds: bool) -> None:
        self.host = host
        self.say = say
        self.holds = holds

    def run(self) -> None:
        """Do everything once; quorum is there."""
        node, devices, records = self.host.node(), self.host.devices(), self.host.records()
        if not records:
            self.say(f"/{IDENTITY} holds no device: only IOMMU group numbers can be repaired")
        with self._lock():
            self._mappings(node, devices, records)
        for slot in raw_slots(self.host, node, devices, records):
            self._raw(node, slot)

    def _mappings(self, node: str, devices: dict[str, Device], records: dict[str, Record]) -> None:
        text = self.host.text(PCI_CFG)
        if text is None:
            self.say("there is no PCI mapping")
            return
        new, changed = repair_text(text, node, devices, records)
        if new != text:
            self._replace(PCI_CFG, new)
        for name, decision in changed:
            self.say(f"mapping {name}: {decision.kind}: {decision.old} -> {decision.new}")
        if not changed:
            self.say("no mapping entry was changed")

    def _raw(self, node: str, slot: RawSlot) -> None:
        self.say(f"VM {slot.vmid} {slot.key}: {slot.problem}; use a mapping instead: pvectl plan")
        if not (self.holds and slot.is_certain):
            return
        name = f"etc/pve/nodes/{node}/qemu-server/{slot.vmid}.conf"
        with self._guest_lock(slot.vmid) as is_ours:
            held = hold_back(self.host.text(name) or "") if is_ours else None
            if held is None:
                self.say(f"VM {slot.vmid} is not held back: it is locked already")
                return
            self._replace(name, held)
        self.say(f"VM {slot.vmid} is held back by lock: create; correct {slot.key}, then: qm unlock {slot.vmid}")

    def _replace(self, name: str, text: str) -> None:
        """Replace a file of pmxcfs as Proxmox does: a temporary file beside it, renamed."""
        path = self.host.path(name)
        beside = path.with_name(f"{path.name}.tmp.{os.getpid()}")
        beside.write_bytes(text.encode("utf-8", "surrogateescape"))
        beside.replace(path)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the cluster's lock of pci.cfg: a folder, of which pmxcfs makes one for the whole cluster."""
        path = self.host.path(LOCK)
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                path.mkdir()
                break
            except FileExistsError:
                with contextlib.suppress(OSError):
                    os.utime(path, (0, 0))  # asks pmxcfs to drop a lock whose owner is gone
                time.sleep(0.2)
        try:
            yield
        finally:
            path.rmdir()

    @contextlib.contextmanager
    def _guest_lock(self, vmid: str) -> Iterator[bool]:
        path = self.host.path(f"run/lock/qemu-server/lock-{vmid}.conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True


def wait_for_quorum(host: Host, say: Callable[[str], None], sleep: Callable[[float], None]) -> bool:
    """Wait as long as pve-guests does.  False where pve-cluster itself is not there."""
    waited = 0.0
    while True:
        quorate = host.is_quorate()
        if quorate:
            return True
        if quorate is None and waited >= MEMBERS_LIMIT:
            say("pve-cluster does not run: nothing is repaired")
            return False
        if waited == 0:
            say("waiting for quorum")
        sleep(1.0)
        waited += 1.0


def main(
    argv: list[str],
    root: str = "/",
    *,
    sleep: Callable[[float], None] = time.sleep,
    limit: Callable[[], None] = lambda: None,
) -> int:
    """Run once.  ``limit`` is called when quorum is there and ends the process after :data:`WORK_LIMIT`."""
    parser = argparse.ArgumentParser(description="Repair PCI mappings at boot where that is certain.")
    parser.add_argument("--raw", choices=("log", "hold"), default="log")
    options = parser.parse_args(argv)
    host = Host(root)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with contextlib.suppress(OSError), host.path(LOG).open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"{stamp} {text}\n")

    if not wait_for_quorum(host, say, sleep):
        return 1
    limit()
    try:
        Unit(host, say, holds=options.raw == "hold").run()
    except OSError as error:
        say(f"stopped: {error}")
        return 1
    return 0


def _end_in_time() -> None:
    """End the process when its time is over, even where a write hangs: guests must not wait longer."""
    timer = threading.Timer(WORK_LIMIT, os._exit, args=(1,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], limit=_end_in_time))
