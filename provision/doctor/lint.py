"""The linter's remarks as findings: the facts it may use, and where each word stands."""

from __future__ import annotations

from collections.abc import Mapping

from provision.boot.cmdline import Cmdline
from provision.boot.lint.cmdline import lint_cmdline
from provision.boot.lint.modprobe import lint_modprobe
from provision.boot.lint.remark import Kind, Lint, LintFacts, Remark
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, undecided
from provision.evidence import Maybe, Unknown
from provision.host.boot_files import MODPROBE_FOLDER, modprobe_files
from provision.host.model import HostModel


def facts_of(model: HostModel) -> LintFacts:
    """Return what the host adds to the words."""
    vms = model.proxmox.vms
    return LintFacts(
        cpu_vendor=model.kernel.cpu_vendor,
        release=model.kernel.release,
        gives_devices=vms if isinstance(vms, Unknown) else any(vm.hostpci for vm in vms),
        functions=model.pci,
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


def modprobe(model: HostModel) -> Maybe[Lint]:
    files = modprobe_files(model)
    return files if isinstance(files, Unknown) else lint_modprobe(files, facts_of(model))


def check_running(rule: str, model: HostModel, kinds: tuple[Kind, ...], consequences: Mapping[Kind, str]) -> Outcome:
    """Yield a finding for each remark of ``kinds`` on the running command line."""
    yield from _check(rule, running(model), kinds, consequences, cite.RUNNING)


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
