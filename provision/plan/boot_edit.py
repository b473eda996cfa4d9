"""Which parameters of the kernel command line come and go.

Computed before everything else, since the IOMMU groups after the reboot follow from it.
"""

from __future__ import annotations

from dataclasses import replace

from provision.boot.cmdline import Cmdline, Token
from provision.boot.lint.cmdline import MAY_REPEAT, noop_of
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.pci.kernel_options import is_at_least
from provision.plan.boot_change import BootEdit, BootWish, TokenEdit
from provision.plan.boot_source import Source, text_of
from provision.plan.iommu_off import switches_off
from provision.plan.render import Render


def edit_boot(model: HostModel, wish: BootWish, render: Render) -> BootEdit:
    """Return the edit that makes the command line what is wished.

    Where ESPs are set up for different boot loaders, both loaders' files are edited: the firmware may take either.
    """
    edits = [_edit_one(model, wish, source) for source in Source.of(model, render)]
    return edits[0] if len(edits) == 1 else _together(edits[0], edits[1])


def _together(running: BootEdit, other: BootEdit) -> BootEdit:
    """Join the edits of two loaders' files.  One that cannot be edited stops both: the next boot may be either."""
    if other.problem is not None and running.problem is None:
        problem = Unknown(
            unknown="the ESPs are set up for different boot loaders, and the other one's file cannot be edited: "
            f"{other.problem.unknown}",
            supply=other.problem.supply,
        )
        return replace(running, problem=problem, files={})
    return replace(
        running,
        added=tuple(dict.fromkeys((*running.added, *other.added))),
        removed=tuple(dict.fromkeys((*running.removed, *other.removed))),
        kept=tuple(dict.fromkeys((*running.kept, *other.kept))),
        files={**running.files, **other.files} if running.problem is None else {},
        needs_boot=running.is_wanted,
    )


def _edit_one(model: HostModel, wish: BootWish, source: Source) -> BootEdit:
    current = source.configured()
    line = current
    if isinstance(line, Unknown):
        running = model.kernel.running_cmdline
        if isinstance(running, Unknown):
            return BootEdit(problem=line)
        line = Cmdline.parse(running)
    added, removed = _wish(model, wish, line)
    pending = _pending(model, wish, line, added)
    kept: tuple[TokenEdit, ...] = ()
    harmless = _harmless(line, model)
    tidy = wish.policies.boot.tidy
    if tidy == "always" or (tidy == "with-changes" and (added or removed or pending)):
        removed = (*removed, *harmless)
    else:
        kept = harmless
    now = text_of(current)
    edit = BootEdit(added=added, removed=removed, pending=pending, kept=kept, configured=now, before=now)
    if not (added or removed):
        return edit
    if isinstance(current, Unknown):
        return replace(edit, problem=current)
    return source.apply(edit)


def _wish(model: HostModel, wish: BootWish, line: Cmdline) -> tuple[tuple[TokenEdit, ...], tuple[TokenEdit, ...]]:
    added: list[TokenEdit] = []
    removed: list[TokenEdit] = []
    parts = (
        _identity_domain(wish.policies, line),
        _iommu_on(model, wish.needs_iommu, line),
        _override(wish.policies, line),
        _framebuffer(wish, line),
        _hugepages(wish.hugepages, line),
    )
    for part in parts:
        added += part[0]
        removed += part[1]
    return tuple(added), tuple(removed)


_Part = tuple[list[TokenEdit], list[TokenEdit]]


def _identity_domain(policies: Policies, line: Cmdline) -> _Part:
    on = [t.raw for t in line.kernel if is_passthrough(t)]
    if policies.iommu == "pt" and not on:
        reason = "policies.iommu is pt: devices that stay with the host use addresses as they are, at full speed"
        return [TokenEdit("iommu=pt", reason)], []
    if policies.iommu == "translated":
        reason = "policies.iommu is translated: the host's own devices are confined by the IOMMU"
        return [], [TokenEdit(raw, reason) for raw in on]
    return [], []


def is_passthrough(token: Token) -> bool:
    """Whether a token asks for identity domains."""
    return (token.key, token.value) in (("iommu", "pt"), ("iommu.passthrough", "1"))


def _iommu_on(model: HostModel, needs_iommu: bool, line: Cmdline) -> _Part:
    if not needs_iommu:
        return [], []
    removed = [TokenEdit(raw, "it turns the IOMMU off: no GPU can go to a guest") for raw in switches_off(line)]
    is_old_intel = model.kernel.cpu_vendor == "GenuineIntel" and not is_at_least(
        known(model.kernel.release, "") or None, 6, 8
    )
    if is_old_intel and "on" not in ",".join(v or "" for v in line.values("intel_iommu")).split(","):
        reason = "kernels before 6.8 leave Intel's IOMMU off without it"
        return [TokenEdit("intel_iommu=on", reason)], removed
    return [], removed


def _override(policies: Policies, line: Cmdline) -> _Part:
    if policies.acs != "no-override":
        return [], []
    reason = "policies.acs is no-override: it asserts an isolation that the hardware does not give"
    return [], [TokenEdit(t.raw, reason) for t in line.all("pcie_acs_override")]


def _framebuffer(wish: BootWish, line: Cmdline) -> _Part:
    """The firmware's screen lies in the card's memory; its driver must not hold it when vfio-pci wants it."""
    if not wish.gives_display or wish.policies.console == "keep":
        return [], []
    if any("sysfb_init" in (value or "").split(",") for value in line.values("initcall_blacklist")):
        return [], []
    reason = (
        f"a guest gets the display that firmware draws on, and policies.console is {wish.policies.console}: no driver "
        "of the host may hold the card's memory; the host's screen stays dark from the boot menu on"
    )
    return [TokenEdit(_SYSFB, reason)], []


_SYSFB = "initcall_blacklist=sysfb_init"


def _hugepages(wanted: tuple[TokenEdit, ...], line: Cmdline) -> _Part:
    """The three parameters work together in their order, so they are replaced together."""
    if not wanted:
        return [], []
    keys = {Token(t.token).key for t in wanted}
    present = [t.raw for t in line.kernel if t.key in keys]
    if present == [t.token for t in wanted]:
        return [], []
    return list(wanted), [TokenEdit(raw, wanted[0].reason) for raw in present]


def _harmless(line: Cmdline, model: HostModel) -> tuple[TokenEdit, ...]:
    """Parameters that surely do nothing on this host."""
    found = ((t.raw, noop_of(t, model.kernel.cpu_vendor)) for t in line.kernel)
    idle = dict.fromkeys(TokenEdit(raw, remark.text) for raw, remark in found if remark is not None)
    return (*idle, *_repeated(line, {edit.token for edit in idle}))


def _repeated(line: Cmdline, gone: set[str]) -> list[TokenEdit]:
    """Parameters that stand there several times and say the same each time."""
    found = []
    for raw in dict.fromkeys(t.raw for t in line.kernel):
        same = line.all(Token(raw).name)
        is_plain = Token(raw).key not in MAY_REPEAT and {t.raw for t in same} == {raw}
        if raw not in gone and len(same) > 1 and is_plain:
            found.append(TokenEdit(raw, f"it stands there {len(same)} times; once is enough", extra=True))
    return found


def _pending(model: HostModel, wish: BootWish, line: Cmdline, added: tuple[TokenEdit, ...]) -> tuple[str, ...]:
    """What the policies want, stands in the files and is not in force: only a boot is missing."""
    running = model.kernel.running_cmdline
    if isinstance(running, Unknown):
        return ()
    in_force = Cmdline.parse(running)
    missing, present = _wish(model, wish, in_force)
    coming = {t.token for t in added}
    lacking = [t.token for t in missing if t.token not in coming]
    lingering = [f"!{t.token}" for t in present if not line.has(t.token)]
    return (*lacking, *lingering)
