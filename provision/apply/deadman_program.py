"""The dead-man: goes back to the previous boot set-up unless somebody confirms the new one in time.

Standard library only, Python 3.9 or newer; with the modules of :mod:`provision.apply.onboard` it is one file when it
is sent.  It lies in the run's folder on the host, is started by a systemd timer after a boot, and reads what it needs
from the run's own journal and plan.  Called with the run's folder and a verb:

``tick``
    What the timer does every half minute.  Nothing before the deadline.  After it: every file as the journal
    says it was, the boot loader's files generated again, one reboot; in the boot after that the mapping entries.
``confirm``
    Keep the new set-up.  Status 0: confirmed, 4: too late, 5: the new set-up was not booted yet, or no longer runs.
    What a one-shot boot entry carried becomes the default here, before the decision.
``once-show``, ``once-put``, ``once-clear``
    Look at the one-shot boot entry of the run's plan (a state as JSON), put it there, take it away.

Who decides first, decides: the decision is a file that can be made only once.  The mapping entries wait for the
second boot since their group numbers belong to it, and since a cluster may have no quorum in the first; they go
through ``pvesh``, which takes the cluster's lock and keeps what it does not know.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any, Optional

from provision.apply.onboard.host import (
    LONG,
    Failed,
    Host,
    HostNetwork,
    Json,
    Network,
    Runner,
    replace_file,
    run_child,
    sync_folder,
    sync_write,
)
from provision.apply.onboard.once import Once
from provision.apply.onboard.promote import GENERATORS, generate, promote
from provision.apply.onboard.run import Run, alone

TIMER = "pvectl-deadman.timer"
OURS = ("/etc/systemd/system/pvectl-", "/var/lib/pvectl/")
MAPPINGS = "/cluster/mapping/pci"
KEPT = "kept"
CONFIRMED, TOO_LATE, NOT_BOOTED = 0, 4, 5


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


def regenerate(run: Run) -> list[str]:
    """Generate again what the run began to generate.  Returns the commands; raises Failed."""
    begun = dict.fromkeys(event["before"]["name"] for event in run.intents("action"))
    commands = [generate(run.host, name) for name in begun if name in GENERATORS]
    run.host.run(("sync",), LONG)
    return commands


def once_of(run: Run) -> Optional[Once]:  # noqa: UP045 - Python 3.9
    """Return the one-shot entry that the run's plan asks for, ``None`` where it asks for none."""
    changes = run.plan()["changes"]
    return next((Once(run.host, c["operation"]) for c in changes if c["operation"]["op"] == "boot.once"), None)


def clear_once(run: Run) -> list[str]:
    """Take the one-shot entry away, where the run had begun to put it there."""
    once = once_of(run) if run.intents("once") else None
    if once is None:
        return []
    once.clear()
    return ["the one-shot boot entry is gone"]


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
    left = run.left("mapping", lambda state: str(state["id"]))
    notes, kept = [], []
    for name, before in first.items():
        # Read again for each: the digest is that of the whole file, which the mapping before it has changed.
        did = restore_mapping(run, before, present(run.host).get(name), left[name])
        if did == KEPT:
            kept.append(name)
        elif did:
            notes.append(did)
    if kept:
        notes.append(f"mappings that VMs use by now stay: {', '.join(kept)}")
    return notes


def present(host: Host) -> dict[str, Json]:
    """Return the mappings as they are, by name; each row has the digest of their file."""
    rows = json.loads(host.run(("pvesh", "get", MAPPINGS, "--output-format", "json")) or b"[]")
    return {row["id"]: row for row in rows}


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
        unchanged = ("--digest", row["digest"]) if row.get("digest") else ()
        run.host.run(("pvesh", "set", f"{MAPPINGS}/{name}", *words, *unchanged))
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
        if run.terms.get("local") and is_new(run) and has_way_in(run):
            return confirm(run, "the management address and the gateway answer")
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


def is_new(run: Run) -> bool:
    """Whether the new set-up runs: after a one-shot boot the host is back in the previous one by itself."""
    if run.host.boot_id() == run.started["boot_id"]:
        return False
    once = once_of(run)
    return once is None or once.is_running()


def restore(run: Run) -> None:
    try:
        notes = restore_files(run)
        notes += clear_once(run)
        commands = regenerate(run)
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
    once = once_of(run)
    if once is not None and run.decided() == "":
        promote(run, once)
    if run.decide("confirmed") != "confirmed":
        return TOO_LATE
    if run.told("confirmed") is None:
        run.tell("confirmed", [why])
    disarm(run)
    return CONFIRMED


def disarm(run: Run) -> None:
    run.host.run(("systemctl", "disable", "--now", TIMER))
    run.host.run(("sync",), LONG)


def once_verb(run: Run, verb: str) -> int:
    once = once_of(run)
    if once is None:
        raise Failed("the run's plan asks for no one-shot boot entry")
    if verb == "once-put":
        once.put()
    elif verb == "once-clear":
        once.clear()
    sys.stdout.write(json.dumps(once.observe()) + "\n")
    return 0


def do(run: Run, verb: str) -> int:
    if verb.startswith("once-"):
        return once_verb(run, verb)
    if verb == "tick":
        return tick(run)
    if run.decided() == "" and not is_new(run):
        return NOT_BOOTED
    return confirm(run, "confirmed by pvectl")


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
    host = Host(root, runner or run_child, network or HostNetwork())
    try:
        with alone(Run(host, folder)):
            return do(Run(host, folder), verb)  # read again: whoever was alone before has written
    except (Failed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
