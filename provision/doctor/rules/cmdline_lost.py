"""Parameters that stand in the right file and get lost on the way to the kernel."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.boot.grub import GENERATED_FILE, GrubDefaults, generated_cmdline
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.boot_files import grub_defaults, text_of
from provision.host.model import HostModel

ID = "cmdline-lost"


def check(model: HostModel) -> Outcome:
    text = model.kernel.running_cmdline
    if isinstance(text, Unknown):
        yield undecided(ID, text, cite.RUNNING)
        return
    if isinstance(model.boot.cmdline_file, Unknown):
        yield undecided(ID, model.boot.cmdline_file, "which file holds the kernel command line")
        return
    yield from (_kernel_cmdline(model) if model.boot.kind == "systemd-boot" else _grub(model, Cmdline.parse(text)))


def _kernel_cmdline(model: HostModel) -> Outcome:
    text = text_of(model, CMDLINE_FILE)
    if isinstance(text, Unknown):
        yield undecided(ID, text, CMDLINE_FILE)
        return
    words = KernelCmdlineFile.parse(text or "").ignored
    if words:
        evidence = tuple(Evidence(source=CMDLINE_FILE, excerpt=word, line=line) for line, word in words)
        why = f"{CMDLINE_FILE} counts with its first line only"
        yield _finding(why, evidence, "move them into the first line, then: proxmox-boot-tool refresh")


def _grub(model: HostModel, running: Cmdline) -> Outcome:
    defaults = grub_defaults(model)
    if isinstance(defaults, Unknown):
        yield undecided(ID, defaults, "/etc/default/grub and its snippets")
        return
    line, lost = defaults.cmdline(), defaults.lost()
    if isinstance(line, Unknown) or isinstance(lost, Unknown):
        fact = line if isinstance(line, Unknown) else lost
        assert isinstance(fact, Unknown)  # noqa: S101
        yield undecided(ID, fact, "/etc/default/grub and its snippets")
        return
    overwritten = [place for place in lost if not line.has(place.token.raw)]
    if overwritten:
        evidence = tuple(Evidence(source=p.path or "", excerpt=p.token.raw, line=p.line) for p in overwritten)
        why = "a later assignment overwrites GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT"
        yield _finding(
            why, evidence, 'let the later one extend it: GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ..."'
        )
    yield from _not_generated(model, defaults, line, running)


def _not_generated(model: HostModel, defaults: GrubDefaults, line: Cmdline, running: Cmdline) -> Outcome:
    """What runs and stands in the files but not in the generated configuration is gone after the next boot."""
    if model.boot.kind != "grub":
        return
    state = model.files.get(GENERATED_FILE)
    if state is not None and isinstance(state.content, Unknown):
        yield undecided(ID, state.content, GENERATED_FILE)
    generated = generated_cmdline(state.content) if state is not None and isinstance(state.content, str) else None
    if generated is None or isinstance(generated, Unknown):
        return
    words = [t for t in line.kernel if running.has(t.raw) and not generated.has(t.raw)]
    if words:
        places = {p.token.raw: p for p in defaults.visible()}
        evidence = tuple(
            Evidence(source=places[t.raw].path or "", excerpt=t.raw, line=places[t.raw].line) for t in words
        )
        yield _finding(f"{GENERATED_FILE} was made without them", evidence, "update-grub")


def _finding(why: str, evidence: tuple[Evidence, ...], remedy: str) -> Finding:
    words = " ".join(one.excerpt for one in evidence)
    return Finding(
        rule=ID,
        severity="warning",
        subjects=("host",),
        summary=f"{words} gets lost: {why}",
        evidence=evidence,
        consequence="the kernel of the next boot does not get it",
        remedy=(remedy,),
        source="Proxmox VE Administration Guide, Host Bootloader, Editing the Kernel Commandline",
        plan_fixes=False,
    )


RULE = Rule(ID, "Kernel parameters in the right file get lost on the way", check)
