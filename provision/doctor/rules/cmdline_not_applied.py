"""The command line in the boot loader's file is not the one that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from provision.boot.cmdline import Cmdline, Token
from provision.boot.grub import GENERATED_FILE, SNIPPET_FOLDER, GrubDefaults, generated_cmdline
from provision.boot.systemd_boot import KernelCmdlineFile
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel

ID = "cmdline-not-applied"

_BY_LOADER = frozenset({"BOOT_IMAGE", "initrd", "root", "rootflags", "ro", "rw", "boot"})
"""What the boot loader or its scripts add by themselves."""


def check(model: HostModel) -> Outcome:
    text = model.kernel.running_cmdline
    if isinstance(text, Unknown):
        yield undecided(ID, text, cite.RUNNING)
        return
    path = model.boot.cmdline_file
    if isinstance(path, Unknown):
        yield undecided(ID, path, "which file holds the kernel command line")
        return
    wanted = _configured(model, path)
    if isinstance(wanted, Unknown):
        yield undecided(ID, wanted, path)
        return
    running = Cmdline.parse(text)
    if wanted is None or _bag(running.kernel) == _bag(wanted.kernel):
        return
    yield _waits(path, running, wanted) if model.boot.from_once is True else _finding(model, path, running, wanted)


def _configured(model: HostModel, path: str) -> Maybe[Cmdline | None]:
    """Return what the files say; ``None`` where the tool takes over the running line because there is no file."""
    own = _content(model, path)
    if isinstance(own, Unknown):
        return own
    if model.boot.kind == "systemd-boot":
        return None if own is None else KernelCmdlineFile.parse(own).cmdline
    if own is None:
        return Unknown(
            unknown=f"{path} does not exist", supply="look which boot loader starts this host: proxmox-boot-tool status"
        )
    files = {path: own}
    for name in model.files:
        if name.startswith(SNIPPET_FOLDER):
            snippet = _content(model, name)
            if isinstance(snippet, Unknown):
                return snippet
            if snippet is not None:
                files[name] = snippet
    return GrubDefaults(files).cmdline()


def _content(model: HostModel, path: str) -> Maybe[str | None]:
    if path not in model.files:
        return Unknown(unknown=f"{path} was not captured", supply="take a new capture as root")
    return model.files[path].content


def _bag(tokens: Iterable[Token]) -> Counter[tuple[str, str | None]]:
    return Counter((t.key, t.value) for t in tokens if t.key not in _BY_LOADER)


def _only_in(tokens: Iterable[Token], other: Iterable[Token]) -> list[Token]:
    """Return the tokens that ``other`` lacks, each as often as it is lacking."""
    left = Counter((t.key, t.value) for t in other)
    only = []
    for token in tokens:
        if left[(token.key, token.value)] > 0:
            left[(token.key, token.value)] -= 1
        elif token.key not in _BY_LOADER:
            only.append(token)
    return only


def _finding(model: HostModel, path: str, running: Cmdline, wanted: Cmdline) -> Finding:
    waiting = _only_in(wanted.kernel, running.kernel)
    extra = _only_in(running.kernel, wanted.kernel)
    parts = []
    if waiting:
        parts.append(f"not running yet: {' '.join(t.raw for t in waiting)}")
    if extra:
        parts.append(f"running, but no longer in the file: {' '.join(t.raw for t in extra)}")
    return Finding(
        rule=ID,
        severity="warning",
        subjects=("host",),
        summary=f"{path} is not applied; {'; '.join(parts)}",
        evidence=(
            *(Evidence(source=path, excerpt=t.raw, line=_line_of(model, path, t)) for t in waiting),
            *(cite.running(t) for t in extra),
        ),
        consequence="the host runs with other settings than its files say, and the next reboot changes them",
        remedy=_remedy(model, wanted),
        source="Proxmox VE Administration Guide, Host Bootloader, Editing the Kernel Commandline",
        plan_fixes=False,
    )


def _waits(path: str, running: Cmdline, wanted: Cmdline) -> Finding:
    """A one-shot entry of our own: the file gets it when the boot is confirmed."""
    only = _only_in(running.kernel, wanted.kernel)
    gone = _only_in(wanted.kernel, running.kernel)
    words = " ".join([*(t.raw for t in only), *(f"without {t.raw}" for t in gone)])
    return Finding(
        rule=ID,
        severity="info",
        subjects=("host",),
        summary=f"this boot came from pvectl's one-shot entry and waits for its confirmation: {words}",
        evidence=tuple(cite.running(t) for t in only),
        consequence=f"unconfirmed, the next boot is the old one again; confirmed, {path} gets it",
        remedy=("pvectl apply --resume, or pvectl confirm",),
        source="pvectl, one-shot boot entries",
        plan_fixes=False,
    )


def _line_of(model: HostModel, path: str, token: Token) -> int | None:
    if model.boot.kind == "systemd-boot":
        return 1
    places = GrubDefaults({path: known(_content(model, path), "") or ""}).find(token.raw)
    return places[0].line if isinstance(places, tuple) and places else None


def _remedy(model: HostModel, wanted: Cmdline) -> tuple[str, ...]:
    if model.boot.kind == "systemd-boot":
        return ("proxmox-boot-tool refresh", "reboot the host")
    generated = model.files.get(GENERATED_FILE)
    if generated is not None and isinstance(generated.content, str):
        line = generated_cmdline(generated.content)
        if not isinstance(line, Unknown) and _bag(line.kernel) == _bag(wanted.kernel):
            return ("reboot the host: update-grub has been run",)
    refresh = "proxmox-boot-tool refresh" if model.boot.kind == "grub-pbt" else "update-grub"
    return (refresh, "reboot the host")


RULE = Rule(ID, "The kernel command line in the file is not the one that runs", check)
