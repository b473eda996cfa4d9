"""Names of network interfaces, pinned before a boot that can number the buses anew.

A name such as ``enp65s0`` is made of a bus number.  Where that number moves, the bridge loses its port and the
host its network.  The pinned names are outside the kernel's and systemd's schemes, and ``/etc/network/interfaces``
is rewritten in the same step.
"""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.evidence import Unknown
from provision.plan.context import Context, Notes, Outcome
from provision.plan.model import ActionRun, Change
from provision.plan.nic_names import Pin, interfaces_files, link_path, pinned, pins
from provision.plan.planners.file_change import file_change


def plan_nic_names(context: Context) -> Outcome:
    """Return a link file for each interface and the rewritten interfaces files, where ``policies.network.pin`` says."""
    notes = Notes()
    for mac, name in pinned(context.model):
        notes.expect("network-name", mac, name)
    pin = context.policies.network.pin
    moving = renumbering(context)
    if pin == "never":
        if moving:
            notes.warnings.append(f"{_moves(moving)}; policies.network.pin: never leaves their names to chance")
        return notes.outcome()
    if pin == "auto" and not moving:
        return notes.outcome()
    wanted = pins(context.model)
    for name, reason in wanted.kept:
        notes.keep(f"name of {name}", reason)
    if wanted.problem:
        notes.keep("names of network interfaces", f"not pinned: {wanted.problem}")
        notes.warnings.append(f"Names of network interfaces are not pinned ({wanted.problem}). {_moves(moving)}")
        return notes.outcome()
    reason = _reason(moving)
    notes.changes += [_link(context, one, reason) for one in wanted.pins]
    for one in wanted.pins:
        notes.expect("network-name", one.mac, one.new)
    notes.changes += _interfaces(context, wanted.names, reason, tuple(change.id for change in notes.changes))
    if wanted.pins:
        notes.changes.append(_initramfs(tuple(change.id for change in notes.changes)))
        names = ", ".join(f"{one.old} becomes {one.new}" for one in wanted.pins)
        notes.warnings.append(f"After the boot {names}: do not reload the network configuration before it")
    return notes.outcome()


def renumbering(context: Context) -> tuple[str, ...]:
    """Return the ``pci=`` parameters that come or go with the next boot, whoever wrote them.

    They lay out buses and windows; which numbers move cannot be told before the boot, so each of them counts.
    """
    boot, running = context.boot, context.model.kernel.running_cmdline
    words = {t.token for t in (*boot.added, *boot.removed) if t.token.startswith("pci=")}
    if not (isinstance(boot.configured, Unknown) or isinstance(running, Unknown)) and (
        boot.is_wanted or context.reboots
    ):
        now = {t.raw for t in Cmdline.parse(running).all("pci")}
        then = {t.raw for t in Cmdline.parse(boot.configured).all("pci")}
        words |= now ^ then
    return tuple(sorted(words))


def _moves(moving: tuple[str, ...]) -> str:
    return f"{' '.join(moving) or 'The next boot'} can number the buses anew, and names of network interfaces with them"


def _reason(moving: tuple[str, ...]) -> str:
    if moving:
        return f"{_moves(moving)}: a bridge whose port has another name has none"
    return "policies.network.pin is always: names made of bus numbers move when a card comes or goes"


def _link(context: Context, pin: Pin, reason: str) -> Change:
    path = link_path(context.model, pin.new)
    return file_change(
        context,
        id=f"network.link.{pin.new}",
        path=path,
        content=context.render("host/nic.link.j2", {"mac": pin.mac, "name": pin.new}),
        title=f"Name the interface with address {pin.mac} {pin.new} (now {pin.old})",
        reason=reason,
        needs_reboot=True,
    )


def _initramfs(after: tuple[str, ...]) -> Change:
    return Change(
        id="network.initramfs",
        title="Run update-initramfs -u -k all",
        operation=ActionRun(name="update-initramfs"),
        diff="",
        reason="the early boot names network interfaces by its own copy of the .link files",
        privilege="root-shell",
        needs_reboot=True,
        undo="the same again, after the files are as before",
        depends_on=after,
    )


def _interfaces(context: Context, names: dict[str, str], reason: str, after: tuple[str, ...]) -> list[Change]:
    files = interfaces_files(context.model)
    changes: list[Change] = []
    for path, file in sorted(files.items()) if not isinstance(files, Unknown) else ():
        renamed = file.rename(names).render()
        if renamed != file.render():
            change = file_change(
                context,
                id=f"network.{path.rsplit('/', 1)[1]}",
                path=path,
                content=renamed,
                title=f"Use the new names in {path}",
                reason=reason,
                needs_reboot=True,
                depends_on=after,
            )
            changes.append(change)
    return changes
