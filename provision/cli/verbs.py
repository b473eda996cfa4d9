"""The table of verbs.  Kept apart from their code, so that ``--help`` imports nothing heavy."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    panel: str
    name: str
    summary: str
    module: str
    """Module with ``command`` (a function) or ``app`` (a group of commands)."""


VERBS: tuple[Verb, ...] = (
    Verb("In the order of the work", "init", "Write an inventory from what a host has", "provision.cli.init"),
    Verb("In the order of the work", "capture", "Save everything that can be read of a host", "provision.cli.capture"),
    Verb("In the order of the work", "doctor", "Say what is wrong, with evidence and remedy", "provision.cli.doctor"),
    Verb("In the order of the work", "plan", "Show every change and make none", "provision.cli.plan"),
    Verb("In the order of the work", "apply", "Carry out a plan, with backups and receipts", "provision.cli.apply"),
    Verb("In the order of the work", "verify", "Prove the result on the host and in the guest", "provision.cli.verify"),
    Verb("In the order of the work", "confirm", "Keep the boot set-up that a host runs now", "provision.cli.confirm"),
    Verb("In the order of the work", "rollback", "Undo a run, newest step first", "provision.cli.rollback"),
    Verb("Look things up", "topo", "Print the PCI tree with groups, ACS, NUMA and owners", "provision.cli.topo"),
    Verb("Look things up", "mapping", "List, check and repair PCI resource mappings", "provision.cli.mapping"),
    Verb("Look things up", "paths", "Say how GPUs are joined and what P2P to expect", "provision.cli.paths"),
    Verb("Look things up", "p2p", "Prove that a guest's GPUs reach each other", "provision.cli.p2p"),
    Verb("Look things up", "compare", "Print which devices moved between two reads", "provision.cli.compare"),
    Verb("Look things up", "auth", "Say what the credentials can do and lack", "provision.cli.auth"),
    Verb("Look things up", "explain", "Explain a rule or a message, offline", "provision.cli.explain"),
    Verb("Look things up", "schema", "Print the JSON Schema of a file", "provision.cli.schema"),
    Verb("Try it without hardware", "lab", "Run a simulated Proxmox host", "provision.cli.lab"),
)

EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done, or nothing to do"),
    (1, "error"),
    (2, "changes pending (plan --detailed-exitcode)"),
    (3, "findings at or above --fail-on"),
    (4, "refused for safety, nothing was changed"),
    (5, "apply stopped in the middle, receipts kept"),
    (6, "a reboot is needed"),
    (7, "verification failed"),
    (8, "could not decide"),
    (64, "wrong usage or inventory"),
    (130, "interrupted"),
)


def top_help() -> str:
    """Return the text of ``pvectl --help``."""
    lines = [
        "Usage: pvectl [--debug] VERB [OPTIONS]",
        "",
        "NVIDIA GPU passthrough on Proxmox VE, from the host to proof in the guest.",
    ]
    panel = ""
    for verb in VERBS:
        if verb.panel != panel:
            panel = verb.panel
            lines += ["", f"{panel}:"]
        lines.append(f"  {verb.name:<10}{verb.summary}")
    lines += [
        "",
        "Examples:",
        "  pvectl doctor root@pve1      what is wrong with this host (changes nothing)",
        "  pvectl lab run epyc-8x-rtxpro6000 -- pvectl plan",
        "",
        "A host is root@host[:port], local, or a name from the inventory",
        "(-i FILE, PVECTL_INVENTORY, ./pvectl.yaml, /etc/pvectl/inventory.yaml).",
        "",
        "Exit codes:",
        *(f"  {code:>3}  {text}" for code, text in EXIT_CODES),
        "",
        "pvectl VERB --help says more; pvectl --version prints the version.",
    ]
    return "\n".join(lines) + "\n"
