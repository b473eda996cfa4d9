"""The dead-man: goes back to the previous boot set-up unless somebody confirms the new one in time.

One file, standard library only, Python 3.9 or newer.  It lies in the run's folder on the host, is started by a
systemd timer after a boot, and reads what it needs from the run's own journal.  Called with the run's folder
and a verb:

``tick``
    What the timer does every half minute.  Nothing before the deadline.  After it: every file as the journal
    says it was, the boot loader's files generated again, one reboot; in the boot after that the mapping entries.
``confirm``
    Keep the new set-up.  Status 0: confirmed, 4: too late, 5: the new set-up was not booted yet.

Who decides first, decides: the decision is a file that can be made only once.  The mapping entries wait for the
second boot since their group numbers belong to it, and since a cluster may have no quorum in the first; they go
through ``pvesh``, which takes the cluster's lock and keeps what it does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, Protocol

Json = dict[str, Any]
Outcome = tuple[int, bytes, bytes, bool]
Runner = Callable[[tuple[str, ...], bytes, float, dict[str, str]], Outcome]

TIMER = "pvectl-deadman.timer"
OURS = ("/etc/systemd/system/pvectl-", "/var/lib/pvectl/")
GENERATORS = {
    "update-grub": ("update-grub",),
    "boot-refresh": ("proxmox-boot-tool", "refresh"),
    "update-initramfs": ("update-initramfs", "-u", "-k", "all"),
    "udev-reload": ("udevadm", "control", "--reload"),
}
LONG = 1800.0
SHORT = 90.0
MAPPINGS = "/cluster/mapping/pci"
KEPT = "kept"
CONFIRMED, TOO_LATE, NOT_BOOTED = 0, 4, 5
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Network(Protocol):
    """How the host sees its own network."""

    def listens(self, address: str) -> bool:
        """Whether the host's own address takes connections."""
        ...

    def answers(self, gateway: str) -> bool:
        """Whether the gateway was heard in this boot."""
        ...


class Failed(Exception):
    """The previous set-up could not be restored; the next tick tries again."""


def run_child(argv: tuple[str, ...], stdin: bytes, timeout: float, env: dict[str, str]) -> Outcome:
    environment = {**os.environ, "PATH": PATH, "LC_ALL": "C", **env}
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout, env=environment, check=False)
    except FileNotFoundError:
        return 127, b"", f"{argv[0]}: no such command".encode(), False
    except subprocess.TimeoutExpired:
        return 124, b"", b"", True
    return done.returncode, done.stdout, done.stderr, False


class HostNetwork:
    """The real network: the host's own ports, and the kernel's table of neighbours."""

    ports = (22, 8006)

    def listens(self, address: str) -> bool:
        for port in self.ports:
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=3):
                return True
        return False

    def answers(self, gateway: str) -> bool:
        """Send a datagram, so that the kernel asks for the gateway; its firewall may drop everything but that."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.sendto(b"", (gateway, 9))
        time.sleep(2)
        rows = [line.split() for line in Path("/proc/net/arp").read_text(encoding="ascii").splitlines()[1:]]
        return any(row[0] == gateway and int(row[2], 16) & 2 for row in rows)


class Host:
    """Files and commands below a root."""

    def __init__(self, root: str, runner: Runner, network: Network) -> None:
        self.root = root
        self.runner = runner
        self.network = network

    def at(self, path: str) -> Path:
        return Path(self.root) / path.lstrip("/")

    def text(self, path: str) -> str:
        return self.at(path).read_text(encoding="utf-8", errors="surrogateescape").strip()

    def boot_id(self) -> str:
        return self.text("/proc/sys/kernel/random/boot_id")

    def uptime(self) -> float:
        return float(self.text("/proc/uptime").split()[0])

    def digest(self, path: str) -> Optional[str]:  # noqa: UP045 - Python 3.9
        place = self.at(path)
        if not place.is_file():
            return None
        return hashlib.sha256(place.read_bytes()).hexdigest()

    def run(self, argv: Sequence[str], timeout: float = SHORT) -> bytes:
        """Run a command and return its output.  Raises Failed."""
        rc, out, err, timed_out = self.runner(tuple(argv), b"", timeout, {})
        if rc != 0 or timed_out:
            last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
            cause = "no end in time" if timed_out else f"exit status {rc}"
            raise Failed(f"{' '.join(argv)}: {cause}" + (f": {last[0]}" if last else ""))
        return out


class Run:
    """The run as its journal tells it."""

    def __init__(self, host: Host, folder: str) -> None:
        self.host = host
        self.folder = folder.rstrip("/")
        self.journal = host.at(f"{self.folder}/journal.jsonl")
        self.version = ""
        self.events = [event for line in self.journal.read_bytes().split(b"\n") for event in self._event(line)]

    def _event(self, line: bytes) -> list[Json]:
        """Return the event of a line; a torn line, cut off by a crash, says nothing."""
        try:
            document = json.loads(line.decode("utf-8"))
        except ValueError:
            return []
        self.version = document["version"]
        return [document["data"]]

    @property
    def started(self) -> Json:
        return self.events[0]

    @property
    def terms(self) -> Json:
        return dict(self.started.get("dead_man") or {})

    def of(self, name: str) -> list[Json]:
        return [event for event in self.events if event["event"] == name]

    def told(self, did: str) -> Optional[Json]:  # noqa: UP045 - Python 3.9
        return next((event for event in self.of("dead-man") if event["did"] == did), None)

    def tell(self, did: str, notes: Sequence[str] = ()) -> None:
        """Add what was done to the journal, as a line of its own, synced."""
        event = {"event": "dead-man", "did": did, "boot_id": self.host.boot_id(), "notes": list(notes)}
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = {"schema": "pvectl.receipt/1", "version": self.version, "created": created, "data": event}
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        is_torn = not self.journal.read_bytes().endswith(b"\n")
        with self.journal.open("ab") as stream:
            stream.write((b"\n" if is_torn else b"") + line)
            stream.flush()
            os.fsync(stream.fileno())
        self.events.append(event)

    # the decision

    @property
    def decision(self) -> Path:
        return self.host.at(f"{self.folder}/deadman.decided")

    def decided(self) -> str:
        return str(json.loads(self.decision.read_text(encoding="ascii"))["decided"]) if self.decision.exists() else ""

    def decide(self, what: str) -> str:
        """Make the decision where there is none, and return the one that holds: a link is made once or not at all."""
        draft = self.decision.with_name(f"deadman.{what}-{os.getpid()}")
        sync_write(draft, json.dumps({"decided": what, "boot_id": self.host.boot_id()}).encode())
        try:
            os.link(draft, self.decision)
        except FileExistsError:
            return self.decided()
        finally:
            draft.unlink()
            sync_folder(draft.parent)
        return what

    # what the run changed

    def intents(self, kind: str) -> list[Json]:
        return [event for event in self.of("intent") if event["before"]["kind"] == kind]

    def left(self, kind: str, name: Callable[[Json], str]) -> dict[str, list[Json]]:
        """Return every state of each object that the run itself made or was about to make."""
        states: dict[str, list[Json]] = {}
        for event in self.events:
            after = event.get("after") if event["event"] == "receipt" else event.get("expected")
            for state in (event.get("before"), after):
                if state and state["kind"] == kind:
                    states.setdefault(name(state), []).append(state)
        return states


def sync_write(place: Path, data: bytes, mode: int = 0o600) -> None:
    with place.open("wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- the previous boot set-up ----------------------------------------------------------------------------------


def restore_files(run: Run) -> list[str]:
    """Put back every file that the run changed, the latest first.  Returns what is to be known."""
    first: dict[str, Json] = {}
    for event in run.intents("file"):
        path = event["before"]["meta"]["path"]
        if not path.startswith(OURS):
            first.setdefault(path, event)
    left = run.left("file", lambda state: str(state["meta"]["path"]))
    notes: list[str] = []
    for path, event in reversed(list(first.items())):
        ours = {state["meta"]["sha256"] for state in left[path]}
        notes += restore_file(run, event, ours)
    return notes


def restore_file(run: Run, event: Json, ours: set[Any]) -> list[str]:
    meta = event["before"]["meta"]
    path, host = meta["path"], run.host
    now = host.digest(path)
    if now == meta["sha256"]:
        return []
    notes = [] if now in ours else [keep_foreign(run, path)]
    place = host.at(path)
    if meta["sha256"] is None:
        place.unlink()
        sync_folder(place.parent)
        return notes
    data = host.at(event["backup"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != meta["sha256"]:
        raise Failed(f"the backup {event['backup']} of {path} is damaged")
    replace_file(place, data, meta)
    return notes


def keep_foreign(run: Run, path: str) -> str:
    """Someone edited the file since: the previous set-up comes first, the edit is kept beside the backups."""
    kept = f"{run.folder}/backup/foreign-{path.rsplit('/', 1)[1]}"
    place = run.host.at(path)
    if not place.exists():
        return f"{path} had been removed by someone else"
    sync_write(run.host.at(kept), place.read_bytes())
    return f"{path} had been edited by someone else: the edit is kept as {kept}"


def replace_file(place: Path, data: bytes, meta: Json) -> None:
    """Write beside the file and rename over it; mode, owner and times as they were."""
    draft = place.with_name(f".{place.name}.pvectl-deadman")
    place.parent.mkdir(parents=True, exist_ok=True)
    sync_write(draft, data, meta["mode"] if meta["mode"] is not None else 0o644)
    if meta["uid"] is not None and meta["gid"] is not None:
        os.chown(draft, meta["uid"], meta["gid"])
    if meta["mtime_ns"] is not None:
        os.utime(draft, ns=(meta["mtime_ns"], meta["mtime_ns"]))
    draft.rename(place)
    sync_folder(place.parent)


def generate(run: Run) -> list[str]:
    """Generate again what the run began to generate.  Returns the commands; raises Failed."""
    begun = dict.fromkeys(event["before"]["name"] for event in run.intents("action"))
    commands = [GENERATORS[name] for name in begun if name in GENERATORS]
    for argv in commands:
        run.host.run(argv, LONG)
    run.host.run(("sync",), LONG)
    return [" ".join(argv) for argv in commands]


# --- the mapping entries ---------------------------------------------------------------------------------------


def has_quorum(host: Host) -> bool:
    try:
        rows = json.loads(host.run(("pvesh", "get", "/cluster/status", "--output-format", "json")) or b"[]")
    except (Failed, ValueError):
        return False
    return all(int(row.get("quorate", 1)) == 1 for row in rows if row.get("type") == "cluster")


def restore_mappings(run: Run) -> list[str]:
    """Give every mapping that the run changed its entries of before.  Returns what was done and what was not."""
    first: dict[str, Json] = {}
    for event in run.intents("mapping"):
        first.setdefault(event["before"]["id"], event["before"])
    if not first:
        return []
    listed = json.loads(run.host.run(("pvesh", "get", MAPPINGS, "--output-format", "json")) or b"[]")
    now = {row["id"]: row for row in listed}
    left = run.left("mapping", lambda state: str(state["id"]))
    notes, kept = [], []
    for name, before in first.items():
        did = restore_mapping(run, before, now.get(name), left[name])
        if did == KEPT:
            kept.append(name)
        elif did:
            notes.append(did)
    if kept:
        notes.append(f"mappings that VMs use by now stay: {', '.join(kept)}")
    return notes


def restore_mapping(run: Run, before: Json, row: Optional[Json], left: list[Json]) -> str:  # noqa: UP045
    """Return what was done to one mapping in words, empty for nothing."""
    name = before["id"]
    now = None if row is None else same(row["map"])
    if now == same(before["entries"]):
        return ""
    if now not in [same(state["entries"]) for state in left]:
        return f"mapping {name} was changed by someone else since, and stays"
    if before["entries"] is None:
        if is_used(run.host, name):
            return KEPT
        run.host.run(("pvesh", "delete", f"{MAPPINGS}/{name}"))
        return f"mapping {name} deleted"
    words = [word for entry in before["entries"] for word in ("--map", entry)]
    if before.get("description") or (row or {}).get("description"):
        words += ["--description", before.get("description") or ""]
    if row is None:
        run.host.run(("pvesh", "create", MAPPINGS, "--id", name, *words))
    else:
        run.host.run(("pvesh", "set", f"{MAPPINGS}/{name}", *words))
    return f"mapping {name} restored"


def same(entries: Optional[Sequence[str]]) -> Optional[list[list[str]]]:  # noqa: UP045 - Python 3.9
    """Return entries in a form that does not depend on the order of their properties."""
    return None if entries is None else [sorted(entry.split(",")) for entry in entries]


def is_used(host: Host, mapping: str) -> bool:
    """Whether the present configuration of a VM names a mapping: Proxmox itself does not ask at a deletion."""
    for path in sorted(host.at("/etc/pve/nodes").glob("*/qemu-server/*.conf")):
        live = path.read_text(encoding="utf-8", errors="replace").partition("\n[")[0]
        slots = [line.partition(":")[2] for line in live.splitlines() if line.startswith("hostpci")]
        if any(f"mapping={mapping}" in slot.strip().split(",") for slot in slots):
            return True
    return False


# --- the verbs -------------------------------------------------------------------------------------------------


def tick(run: Run) -> int:
    host = run.host
    if run.decided() == "confirmed" or run.of("done") or not run.terms:
        disarm(run)
        return 0
    if host.boot_id() == run.started["boot_id"]:
        return 0  # the new set-up was not booted yet
    if run.decided() == "":
        if run.terms.get("local") and has_way_in(run):
            confirm(run, "the management address and the gateway answer")
            return 0
        if host.uptime() < run.terms["minutes"] * 60:
            return 0
    if run.decide("fired") == "confirmed":
        disarm(run)
        return 0
    restored = run.told("restored")
    if restored is None:
        restore(run)
    if restored is None or restored["boot_id"] == host.boot_id():
        host.run(("systemctl", "reboot"))  # shuts guests down on the way; asked again where it hangs
        return 0
    return after_the_reboot(run)


def restore(run: Run) -> None:
    try:
        notes = restore_files(run)
        commands = generate(run)
    except (Failed, OSError) as error:
        if not run.told("failed"):
            run.tell("failed", [f"the previous boot set-up is not restored yet: {error}"])
        raise
    run.tell("restored", [*notes, *(f"ran {command}" for command in commands)])


def after_the_reboot(run: Run) -> int:
    """The previous set-up runs.  Without quorum the next tick tries again."""
    if run.told("mappings") is None:
        if run.intents("mapping") and not has_quorum(run.host):
            return 0
        run.tell("mappings", restore_mappings(run))
    disarm(run)
    return 0


def has_way_in(run: Run) -> bool:
    local = run.terms["local"]
    return run.host.network.listens(local["address"]) and run.host.network.answers(local["gateway"])


def confirm(run: Run, why: str) -> int:
    if run.decide("confirmed") != "confirmed":
        return TOO_LATE
    if run.told("confirmed") is None:
        run.tell("confirmed", [why])
    disarm(run)
    return CONFIRMED


def disarm(run: Run) -> None:
    run.host.run(("systemctl", "disable", "--now", TIMER))
    run.host.run(("sync",), LONG)


def main(
    argv: Sequence[str],
    root: str = "/",
    runner: Optional[Runner] = None,  # noqa: UP045 - Python 3.9
    network: Optional[Network] = None,  # noqa: UP045 - Python 3.9
) -> int:
    """Do one verb for the run in a folder.  Returns the exit status.

    ``root`` prefixes every path; ``runner(argv, stdin, timeout, env)`` replaces child processes and returns
    ``(rc, out, err, timed_out)``.
    """
    folder, verb = argv
    run = Run(Host(root, runner or run_child, network or HostNetwork()), folder)
    try:
        if verb == "tick":
            return tick(run)
        if run.host.boot_id() == run.started["boot_id"]:
            return NOT_BOOTED
        return confirm(run, "confirmed by pvectl")
    except (Failed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
