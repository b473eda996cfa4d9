"""The kernel command line: edits where a token stands, our additions in a snippet, then the boot loader's tool."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.boot.grub import DEFAULT_FILE, SNIPPET_FILE, GrubDefaults
from provision.boot.grub_cfg import CUSTOM_FILE
from provision.boot.once import ENTRY
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.evidence import Unknown
from provision.host.own_run import run_with_lock
from provision.plan.boot_change import BootEdit, TokenEdit
from provision.plan.context import Context, Notes, Outcome
from provision.plan.model import ActionRun, BootOnce, Change
from provision.plan.planners.file_change import file_change

_TOOL = {"grub": "update-grub", "grub-pbt": "boot-refresh", "systemd-boot": "boot-refresh"}
_FROM_LOADER = ("BOOT_IMAGE", "root", "ro", "initrd")
"""Parameters that the boot loader's tool adds by itself."""
_SHOWN = {"update-grub": "update-grub", "boot-refresh": "proxmox-boot-tool refresh"}


def plan_boot_cmdline(context: Context) -> Outcome:
    """Return the file edits, then the action that brings them into the boot loader; both need a reboot."""
    boot = context.boot
    notes = Notes()
    _expect(context, notes)
    if boot.problem is not None:
        _cannot(boot, notes)
        return notes.outcome()
    for kept in boot.kept:
        notes.keep(f"kernel parameter {kept.token}", f"{kept.reason}; harmless, and cosmetics never cost a reboot")
    if not boot.is_wanted:
        notes.keep("kernel command line", "it is as the policies want it")
        return notes.outcome()
    edits = [_edit(context, path) for path in sorted(boot.files)]
    changes = [*edits, _action(context, tuple(change.id for change in edits))]
    if boot.once is not None:
        changes = [_once(context, boot.once), *(c.model_copy(update={"phase": "at-confirm"}) for c in changes)]
    notes.changes += changes
    notes.warnings += _others(context)
    notes.warnings += [f"Boot set-up: {note}" for note in context.model.boot.notes]
    return notes.outcome()


def _cannot(boot: BootEdit, notes: Notes) -> None:
    problem = boot.problem
    wanted = ", ".join([*(f"add {t.token}" for t in boot.added), *(f"remove {t.token}" for t in boot.removed)])
    if problem is None or not boot.is_wanted:
        notes.keep("kernel command line", f"{problem}")
        return
    notes.keep("kernel command line", f"not edited ({wanted}): {problem}")
    notes.warnings.append(
        f"The kernel command line is not changed ({wanted}): {problem.unknown}"
        + (f"; {problem.supply}" if problem.supply else "")
    )


def _once(context: Context, once: BootOnce) -> Change:
    """The new command line in an entry of its own, which the boot loader takes at the next boot and no other."""
    release = context.model.kernel.release
    name = {"grub": "GRUB", "systemd-boot": "systemd-boot"}[once.loader]
    old = f"{context.boot.before}".strip()
    where = CUSTOM_FILE if once.loader == "grub" else f"{ENTRY}.conf on ESP {', '.join(once.esps)}"
    reason = (
        f"{name} takes this entry once and forgets it before it boots ({where}, kernel {release}, which runs now): "
        "a set-up that does not come up is gone after a reset\n"
        "the default entry keeps the present command line until the new one is confirmed; then the steps marked "
        "'at the confirmation' make it the default"
    )
    return Change(
        id="boot.once",
        title="Boot once with the new kernel command line, from an entry of its own",
        operation=once,
        diff=f"-{old}\n+{f'{context.boot.configured}'.strip()}\n",
        reason=reason,
        privilege="root-shell",
        needs_reboot=True,
        undo="let the boot loader forget the entry, and remove it",
    )


def _edit(context: Context, path: str) -> Change:
    boot = context.boot
    content = boot.files[path]
    before = context.model.files[path].content if path in context.model.files else None
    had, has = _tokens(path, before if isinstance(before, str) else ""), _tokens(path, content or "")
    gone = [t for t in boot.removed if _count(had, t.token) > _count(has, t.token)]
    new = [t for t in boot.added if _count(has, t.token) > _count(had, t.token)]
    return file_change(
        context,
        id=f"boot.{_short(path)}",
        path=path,
        content=content,
        title=_title(path, new, gone),
        reason="\n".join(f"{t.token}: {t.reason}" for t in (*new, *gone)),
        needs_reboot=boot.needs_boot,
    )


def _tokens(path: str, text: str) -> Cmdline:
    """Return the parameters that one file holds."""
    if path == CMDLINE_FILE:
        return KernelCmdlineFile.parse(text).cmdline
    line = GrubDefaults({path: text}).cmdline()
    return Cmdline() if isinstance(line, Unknown) else line


def _count(line: Cmdline, token: str) -> int:
    return sum(t.raw == token for t in line.kernel)


def _title(path: str, new: list[TokenEdit], gone: list[TokenEdit]) -> str:
    parts = []
    if new:
        parts.append(f"add {' '.join(t.token for t in new)} to")
    if gone:
        parts.append(f"remove {' '.join(t.token for t in gone)} from")
    text = " and ".join(parts) or "write"
    return f"{text[0].upper()}{text[1:]} {path}"


def _short(path: str) -> str:
    names = {DEFAULT_FILE: "grub", SNIPPET_FILE: "snippet", CMDLINE_FILE: "cmdline"}
    return names.get(path, path.rsplit("/", 1)[1])


def _action(context: Context, after: tuple[str, ...]) -> Change:
    kind = context.model.boot.kind
    name = _TOOL[kind]
    boot = context.boot
    reason = "bring the edited command line into the boot loader's own files"
    if not boot.files:
        reason = f"the files hold what the policies want, the running kernel does not ({' '.join(boot.pending)})"
    return Change(
        id="boot.update",
        title=f"Run {_SHOWN[name]}",
        operation=ActionRun(name="update-grub" if name == "update-grub" else "boot-refresh"),
        diff="",
        reason=f"{reason}\n{_evidence(context)}",
        privilege="root-shell",
        needs_reboot=boot.needs_boot,
        undo=f"{_SHOWN[name]} again, after the files are as before",
        depends_on=after,
    )


def _evidence(context: Context) -> str:
    """Say which file counts, and how we know."""
    boot = context.model.boot
    return f"{boot.cmdline_file} counts on this host: {'; '.join(boot.evidence)}"


def _others(context: Context) -> list[str]:
    """Say what else the next boot brings: edits that somebody, or an unfinished run, made and never booted."""
    boot, running = context.boot, context.model.kernel.running_cmdline
    if isinstance(boot.configured, Unknown) or isinstance(running, Unknown):
        return []
    now, then = Cmdline.parse(running), Cmdline.parse(boot.configured)
    ours = {t.token for t in (*boot.added, *boot.removed)} | {word.lstrip("!") for word in boot.pending}
    coming = [t.raw for t in then.kernel if not now.has(t.raw) and t.raw not in ours]
    going = [t.raw for t in now.kernel if not then.has(t.raw) and t.raw not in ours and t.key not in _FROM_LOADER]
    words = [*(f"adds {raw}" for raw in coming), *(f"drops {raw}" for raw in going)]
    run = run_with_lock(context.model)
    who = f"run {run} of pvectl" if run else "someone else"
    return [f"The next boot also {', '.join(words)}: edited by {who} and not booted yet"] if words else []


def _expect(context: Context, notes: Notes) -> None:
    if context.bound:
        notes.expect("iommu-on", "host", "on")
    boot = context.boot
    if boot.problem is not None:
        return
    words = [t.token for t in boot.added] + [f"!{token}" for token in boot.gone] + list(boot.pending)
    if context.policies.iommu == "pt" and not words:
        words += [t for t in str(boot.configured).split() if t in ("iommu=pt", "iommu.passthrough=1")][:1]
    if words:
        notes.expect("cmdline", "host", " ".join(dict.fromkeys(words)))
