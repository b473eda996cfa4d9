"""The linter's remarks as findings: the facts it may use, and where each word stands."""

from __future__ import annotations

from collections.abc import Mapping

from provision.boot.cmdline import Cmdline
from provision.boot.grub import DEFAULT_FILE, SNIPPET_FOLDER, GrubDefaults
from provision.boot.lint.cmdline import lint_cmdline
from provision.boot.lint.files import lint_grub, lint_kernel_cmdline
from provision.boot.lint.modprobe import lint_modprobe
from provision.boot.lint.remark import BOOTING, Kind, Lint, LintFacts, Remark
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, undecided
from provision.evidence import Maybe, Unknown
from provision.host.boot_files import MODPROBE_FOLDER, grub_defaults, modprobe_files, text_of
from provision.host.model import HostModel

SHELL = "a shell must read this"
"""How the linter's remark on a line begins that is no plain assignment."""


_NO_PCI = Unknown(unknown="no PCI function was read", supply="add the output of lspci -Dnnk")


def facts_of(model: HostModel) -> LintFacts:
    """Return what the host adds to the words."""
    vms = model.proxmox.vms
    return LintFacts(
        cpu_vendor=model.kernel.cpu_vendor,
        release=model.kernel.release,
        gives_devices=vms if isinstance(vms, Unknown) else any(vm.hostpci for vm in vms),
        functions=model.pci or _NO_PCI,
        vital=_vital(model),
        memory_bytes=model.kernel.memory_bytes,
    )


def _vital(model: HostModel) -> Maybe[frozenset[str]]:
    found: set[str] = set()
    for things in (model.disks, model.interfaces):
        if isinstance(things, Unknown):
            return things
        for thing in things:
            if thing.uses and isinstance(thing.bdf, Unknown):
                return thing.bdf
            if thing.uses and isinstance(thing.bdf, str):
                found.add(thing.bdf)
    return frozenset(found)


def running(model: HostModel) -> Maybe[Lint]:
    """Return the remarks on the command line of the running kernel."""
    text = model.kernel.running_cmdline
    return text if isinstance(text, Unknown) else lint_cmdline(Cmdline.parse(text), facts_of(model))


def written(model: HostModel) -> Maybe[Lint]:
    """Return the remarks on the boot loader's file as it stands; on whichever was given where the loader is not known.

    Snippets that were not read are left out: the words of the file itself stand in it all the same.
    """
    wanted = model.boot.cmdline_file
    own, plain = text_of(model, DEFAULT_FILE), text_of(model, CMDLINE_FILE)
    if wanted == CMDLINE_FILE or (isinstance(wanted, Unknown) and not isinstance(own, str)):
        return plain if isinstance(plain, Unknown) else lint_kernel_cmdline(plain or "", facts_of(model))
    if isinstance(own, Unknown):
        return own
    snippets = {path: state.content for path, state in model.files.items() if path.startswith(SNIPPET_FOLDER)}
    texts = {DEFAULT_FILE: own or "", **{path: text for path, text in snippets.items() if isinstance(text, str)}}
    return lint_grub(GrubDefaults(texts), facts_of(model))


def written_line(model: HostModel) -> Maybe[str]:
    """Return the command line that the boot loader's files ask for."""
    path = model.boot.cmdline_file
    if isinstance(path, Unknown):
        return path
    if path == CMDLINE_FILE:
        text = text_of(model, path)
        return text if isinstance(text, Unknown) else KernelCmdlineFile.parse(text or "").cmdline.render()
    defaults = grub_defaults(model)
    line = defaults if isinstance(defaults, Unknown) else defaults.cmdline()
    return line if isinstance(line, Unknown) else line.render()


def modprobe(model: HostModel) -> Maybe[Lint]:
    files = modprobe_files(model)
    return files if isinstance(files, Unknown) else lint_modprobe(files, facts_of(model))


def check_running(rule: str, model: HostModel, kinds: tuple[Kind, ...], consequences: Mapping[Kind, str]) -> Outcome:
    """Yield a finding for each remark of ``kinds`` on the running command line, else on the file that makes it."""
    now = running(model)
    yield from _check(rule, now, kinds, consequences, cite.RUNNING)
    if isinstance(now, Unknown):
        for remark in of_file(model, *kinds):
            yield finding(rule, remark, consequences[remark.kind], source=DEFAULT_FILE)


def of_file(model: HostModel, *kinds: Kind) -> tuple[Remark, ...]:
    """Return the remarks on the words of the boot loader's file; those on the file itself belong to other rules."""
    lint = written(model)
    return () if isinstance(lint, Unknown) else tuple(r for r in lint.of(*kinds) if r.source != BOOTING)


def check_modprobe(rule: str, model: HostModel, kinds: tuple[Kind, ...], consequences: Mapping[Kind, str]) -> Outcome:
    """Yield a finding for each remark of ``kinds`` on the files of /etc/modprobe.d."""
    yield from _check(rule, modprobe(model), kinds, consequences, MODPROBE_FOLDER)


def _check(
    rule: str, lint: Maybe[Lint], kinds: tuple[Kind, ...], consequences: Mapping[Kind, str], source: str
) -> Outcome:
    if isinstance(lint, Unknown):
        yield undecided(rule, lint, source)
        return
    for doubt in lint.doubts:
        if doubt.kind in kinds:
            yield undecided(rule, doubt.fact, f"what {doubt.subject} does")
    for remark in lint.of(*kinds):
        yield finding(rule, remark, consequences[remark.kind], source=source)


def finding(rule: str, remark: Remark, consequence: str, *, source: str) -> Finding:
    """Return one remark as a finding."""
    evidence = Evidence(source=remark.path or source, excerpt=remark.subject, line=remark.line or 1)
    return Finding(
        rule=rule,
        severity=remark.severity,
        subjects=("host",),
        summary=f"{remark.subject}: {remark.text}",
        evidence=(evidence,),
        consequence=consequence,
        remedy=(remark.advice,),
        source=remark.source,
        plan_fixes=False,
        consequence_of=("iommu-off",) if "turns the IOMMU off" in remark.text else (),
    )
