"""Parameters stand in a file that the boot loader of this host does not read."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline, Token
from provision.boot.grub import DEFAULT_FILE
from provision.boot.lint.remark import Lint
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.doctor import cite, lint
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Maybe, Unknown
from provision.host.boot_files import grub_defaults, text_of
from provision.host.model import HostModel

ID = "cmdline-wrong-file"
_ANYWHERE = frozenset({"root", "boot", "rootflags", "ro", "rw", "quiet", "splash", "initrd", "BOOT_IMAGE"})
"""What the installer writes into both files."""


def check(model: HostModel) -> Outcome:
    text = model.kernel.running_cmdline
    if isinstance(text, Unknown):
        yield undecided(ID, text, cite.RUNNING)
        yield from _on_zfs(model)
        return
    path = model.boot.cmdline_file
    if isinstance(path, Unknown):
        yield undecided(ID, path, "which file holds the kernel command line")
        yield from _on_zfs(model)
        return
    other = CMDLINE_FILE if path == DEFAULT_FILE else DEFAULT_FILE
    stray, used = _line(model, other), _line(model, path)
    for line, name in ((stray, other), (used, path)):
        if isinstance(line, Unknown):
            yield undecided(ID, line, name)
    if isinstance(stray, Unknown) or isinstance(used, Unknown):
        return
    now = Cmdline.parse(text)
    words = [t for t in stray.kernel if t.key not in _ANYWHERE and not used.has(t.raw) and not now.has(t.raw)]
    if words:
        yield _finding(model, path, other, words)


def _on_zfs(model: HostModel) -> Outcome:
    """Root on ZFS and a GRUB file, and nothing tells which loader starts the host."""
    found = lint.written(model) if isinstance(model.boot.cmdline_file, Unknown) else None
    for remark in found.remarks if isinstance(found, Lint) else ():
        if remark.subject.startswith("root=ZFS="):
            yield Finding(
                rule=ID,
                severity="info",
                subjects=("host",),
                summary=f"{remark.subject}: {remark.text}",
                evidence=(Evidence(source=remark.path or DEFAULT_FILE, excerpt=remark.subject, line=remark.line),),
                consequence="parameters in the file of the other boot loader have no effect",
                remedy=(remark.advice,),
                source=remark.source,
                plan_fixes=False,
            )


def _line(model: HostModel, path: str) -> Maybe[Cmdline]:
    """Return what a file says; a file that does not exist says nothing."""
    if path == CMDLINE_FILE:
        text = text_of(model, path)
        if isinstance(text, Unknown):
            return text
        return Cmdline() if text is None else KernelCmdlineFile.parse(text).cmdline
    defaults = grub_defaults(model)
    return defaults if isinstance(defaults, Unknown) else defaults.cmdline()


def _finding(model: HostModel, path: str, other: str, words: list[Token]) -> Finding:
    shown = " ".join(token.raw for token in words)
    refresh = "update-grub" if model.boot.kind == "grub" else "proxmox-boot-tool refresh"
    return Finding(
        rule=ID,
        severity="warning",
        subjects=("host",),
        summary=f"{shown} stands in {other}, but this host boots with {path}",
        evidence=(
            *(Evidence(source=other, excerpt=token.raw) for token in words),
            *(Evidence(source="/etc/kernel/proxmox-boot-uuids", excerpt=fact) for fact in model.boot.evidence),
        ),
        consequence="no reboot brings it into force",
        remedy=(f"write it into {path}, then: {refresh}, and reboot the host",),
        source="Proxmox VE Administration Guide, Host Bootloader, Editing the Kernel Commandline",
        plan_fixes=False,
    )


RULE = Rule(ID, "Kernel parameters stand in a file that the boot loader does not read", check)
