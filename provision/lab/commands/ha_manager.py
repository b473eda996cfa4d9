"""``ha-manager``: services under high availability, and a node's maintenance mode."""

from __future__ import annotations

import re
from collections.abc import Callable

from provision.lab import ha
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.commands.pct import running
from provision.lab.proxmox.node import QUORUM_LOST

STATES = ("started", "stopped", "enabled", "disabled", "ignored")
_SID = re.compile(r"(?:(vm|ct):)?(\d+)")


def ha_manager(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    verb = argv[1] if len(argv) > 1 else ""
    act = _VERBS.get(verb)
    if act is None:
        said = f"unknown command 'ha-manager {verb}'" if verb else "no command specified"
        return fail(f"ERROR: {said}\nUSAGE: ha-manager <COMMAND> [ARGS] [OPTIONS]", 255)
    return act(host, argv[2:])


def _quorate(host: Machinery) -> bool:
    return not host.node.root.exists(QUORUM_LOST)


def _status(host: Machinery, words: tuple[str, ...]) -> Answer:
    del words
    lines = ha.status_lines(host.node, quorate=_quorate(host), containers=running(host))
    return Answer(0, "".join(f"{line}\n" for line in lines))


def _config(host: Machinery, words: tuple[str, ...]) -> Answer:
    del words
    text = ""
    for name, options in sorted(ha.resources(host.node).items()):
        text += name + "\n" + "".join(f"\t{key} {value}\n" for key, value in sorted(options.items())) + "\n"
    return Answer(0, text)


def _change(verb: str) -> Callable[[Machinery, tuple[str, ...]], Answer]:
    def act(host: Machinery, words: tuple[str, ...]) -> Answer:
        usage = f"ha-manager {verb} <sid> [OPTIONS]"
        match = _SID.fullmatch(words[0]) if words else None
        if match is None:
            return fail(f"400 not enough arguments\n{usage}", 255)
        name = f"{match[1] or _kind(host, match[2])}:{match[2]}"
        known = ha.resources(host.node)
        if verb == "add" and name in known:
            return fail(f"resource ID '{name}' already defined", 255)
        if verb != "add" and name not in known:
            return fail(f"no such resource '{name}'", 255)
        state = _option(words[1:], "state")
        if state is not None and state not in STATES:
            listed = ", ".join(STATES)
            text = f"value '{state}' does not have a value in the enumeration '{listed}'"
            return fail(f"400 Parameter verification failed.\nstate: {text}\n{usage}", 255)
        if not _quorate(host):
            return fail("cfs-lock 'domain-ha' error: no quorum!", 255)
        if verb == "remove":
            del known[name]
        else:
            known[name] = known.get(name, {}) | ({"state": state} if state else {})
        ha.write_resources(host.node, known)
        return Answer()

    return act


def _kind(host: Machinery, vmid: str) -> str:
    return "vm" if int(vmid) in host.node.vmids() else "ct"


def _option(words: tuple[str, ...], name: str) -> str | None:
    for index, word in enumerate(words):
        if word.lstrip("-") == name and index + 1 < len(words):
            return words[index + 1]
        if word.lstrip("-").startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _crm_command(host: Machinery, words: tuple[str, ...]) -> Answer:
    if words[:1] != ("node-maintenance",) or words[1:2] not in (("enable",), ("disable",)) or len(words) < 3:
        return fail(
            f"ERROR: unknown command 'ha-manager crm-command {' '.join(words)}'\n"
            "USAGE: ha-manager crm-command <COMMAND> [ARGS] [OPTIONS]",
            255,
        )
    if words[2] != host.node.name:
        return fail(f"no such cluster node '{words[2]}'", 255)
    if not _quorate(host):
        return fail(f"unable to open file '{ha.STATUS}' - Permission denied", 255)
    ha.set_maintenance(host.node, on=words[1] == "enable")
    return Answer()


_VERBS: dict[str, Callable[[Machinery, tuple[str, ...]], Answer]] = {
    "add": _change("add"),
    "config": _config,
    "crm-command": _crm_command,
    "remove": _change("remove"),
    "set": _change("set"),
    "status": _status,
}
