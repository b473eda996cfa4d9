"""What else lives on a host that is about to reboot: containers, services under HA, the rest of the cluster."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from provision.apply.host_files import read_file, read_matches
from provision.errors import PvectlError, Refused
from provision.remote.session import Session

TIMEOUT = 60.0
CONTAINERS = "/etc/pve/lxc/*.conf"
MEMBERS = "/etc/pve/.members"
HA_RESOURCES = "/etc/pve/ha/resources.cfg"
DATACENTER = "/etc/pve/datacenter.cfg"
_SERVICE = re.compile(r"^service (\S+) \((\S+), (\S+)\)", re.MULTILINE)
_POLICY = re.compile(r"^ha:.*\bshutdown_policy=(\w+)", re.MULTILINE)
MOVING = frozenset({"migrate", "failover"})
"""Shutdown policies by which HA takes services to other nodes; by the others they stay and wait for the reboot."""


@dataclass
class Occupants:
    """``running`` goes down with the host; ``unknown`` says why it could not be told."""

    running: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def occupants_of(session: Session, node: str) -> Occupants:
    """Return what runs on the host besides VMs.  Raises Refused where a reboot would hurt the cluster or HA."""
    found = Occupants()
    services = _ha(session, node, found)
    _cluster(session, node, has_ha=services)
    _containers(session, found)
    return found


def _containers(session: Session, found: Occupants) -> None:
    names = {path.rpartition("/")[2].removesuffix(".conf") for path in read_matches(session, (CONTAINERS,))}
    if not names:
        return
    result = session.run(("pct", "list"), timeout=TIMEOUT)
    if result.rc != 0 or result.timed_out:
        found.unknown.append(f"whether containers run is not known: pct list ended with status {result.rc}")
        return
    rows = [line.split() for line in result.stdout.decode("utf-8", "replace").splitlines()[1:]]
    found.running += [f"container {row[0]}" for row in rows if row[1:2] == ["running"]]


def _ha(session: Session, node: str, found: Occupants) -> bool:
    """Judge the services under HA.  Returns whether the cluster has any."""
    _, resources = read_file(session, HA_RESOURCES)
    if not re.search(rb"^(vm|ct): ", resources, re.MULTILINE):
        return False
    result = session.run(("ha-manager", "status"), timeout=TIMEOUT)
    if result.rc != 0 or result.timed_out:
        found.unknown.append(f"the state of HA is not known: ha-manager status ended with status {result.rc}")
        return True
    text = result.stdout.decode("utf-8", "replace")
    services = [name for name, where, state in _SERVICE.findall(text) if where == node and state == "started"]
    if services and not re.search(rf"^lrm {re.escape(node)} \(maintenance", text, re.MULTILINE):
        _check_policy(session, node, services)
        found.running += [f"HA service {name}" for name in services]
    return True


def _check_policy(session: Session, node: str, services: list[str]) -> None:
    _, config = read_file(session, DATACENTER)
    policy = _POLICY.search(config.decode("utf-8", "replace"))
    if policy and policy[1] in MOVING:
        raise Refused(
            f"Unable to reboot {session.target}: {', '.join(services)} would be taken to other nodes "
            f"(ha: shutdown_policy={policy[1]} in {DATACENTER})",
            f"move them first, with: ha-manager crm-command node-maintenance enable {node}",
        )


def _cluster(session: Session, node: str, *, has_ha: bool) -> None:
    """Never two members at once, and no reboot that would take the quorum from nodes that HA watches."""
    _, data = read_file(session, MEMBERS)
    try:
        nodes = json.loads(data).get("nodelist", {}) if data else {}
    except ValueError as error:
        raise PvectlError(
            f"Unable to read {MEMBERS} on {session.target}: it is no JSON ({error})", "look at: pvecm status"
        ) from error
    others = {name: about for name, about in nodes.items() if name != node}
    away = sorted(name for name, about in others.items() if not int(about.get("online", 0)))
    if away:
        raise Refused(
            f"Unable to reboot {session.target}: {', '.join(away)} of its cluster is not online, "
            "and never two members go down at once",
            "wait until it is back, or take it out of the cluster; look at: pvecm status",
        )
    if has_ha and others and len(others) <= len(nodes) // 2:
        raise Refused(
            f"Unable to reboot {session.target}: without it its cluster has no quorum, and HA would fence the rest",
            "disable the services meanwhile: ha-manager set SERVICE --state ignored",
        )
