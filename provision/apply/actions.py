"""Named actions of a host: how each is done, and how to see that it failed."""

from __future__ import annotations

from provision.apply.link import Link
from provision.apply.outcome import ApplyOptions, Report
from provision.apply.records import ActionFacts, GeneratorName, GuestFacts, State
from provision.errors import ApplyStopped, TaskFailed
from provision.plan.model import ActionRun
from provision.pve.session import TaskResult
from provision.pve.task_text import task_failure

COMMANDS: dict[GeneratorName, tuple[str, ...]] = {
    "update-grub": ("update-grub",),
    "boot-refresh": ("proxmox-boot-tool", "refresh"),
    "update-initramfs": ("update-initramfs", "-u", "-k", "all"),
    "udev-reload": ("udevadm", "control", "--reload"),
}
WANTED: dict[str, str] = {"vm-stop": "stopped", "vm-start": "running"}
"""Actions on a guest, and its status after them."""

TIMEOUT = 1800.0
"""Seconds; initramfs images of several kernels on a slow disk take minutes."""


def observe(op: ActionRun, link: Link) -> State:
    if op.name == "reboot":
        raise AssertionError("a reboot is the border between the phases, never a step")
    if op.name == "vm-stop" or op.name == "vm-start":  # noqa: PLR1714  (mypy narrows by comparison)
        return GuestFacts(vmid=_vmid(op), status=link.pve.vm_status(_vmid(op)))
    return ActionFacts(name=op.name)


def is_done(op: ActionRun, state: State) -> bool:
    """Whether the action has nothing left to do.  What generates files is always done again."""
    return isinstance(state, GuestFacts) and state.status == WANTED[op.name]


def expected(op: ActionRun, state: State) -> State:
    if isinstance(state, GuestFacts):
        return state.model_copy(update={"status": WANTED[op.name]})
    return state


def act(op: ActionRun, state: State, link: Link, options: ApplyOptions, report: Report) -> None:
    if isinstance(state, ActionFacts):
        _command(state.name, link)
    elif is_done(op, state):
        return
    elif op.name == "vm-stop":
        _judge(link, op, link.pve.vm_shutdown(_vmid(op), timeout=options.stop_timeout, progress=report))
    else:
        _judge(link, op, link.pve.vm_start(_vmid(op), progress=report))


def _vmid(op: ActionRun) -> int:
    if op.vmid is None:
        raise ApplyStopped(f"Unable to run {op.name}: the plan names no VM", "make a new plan with: pvectl plan")
    return op.vmid


def _command(name: GeneratorName, link: Link) -> None:
    argv = COMMANDS[name]
    target = link.session.target
    result = link.session.run(argv, timeout=TIMEOUT)
    stderr = result.stderr.decode("utf-8", "replace")
    if result.rc != 0 or result.timed_out:
        last = [line for line in stderr.splitlines() if line.strip()][-3:]
        cause = f"no end after {TIMEOUT:.0f} seconds" if result.timed_out else f"exit status {result.rc}"
        raise ApplyStopped(
            f"Unable to run {' '.join(argv)} on {target}: {cause}" + (f": {' / '.join(last)}" if last else ""),
            "repair what it names, then go on with: pvectl apply --resume",
        )
    _sync(link)
    if name != "udev-reload":
        _refuse_skipped(argv, target, result.stdout.decode("utf-8", "replace") + "\n" + stderr)


def _sync(link: Link) -> None:
    """Put what the command wrote on disk: its receipt must not outlive it in a power cut."""
    result = link.session.run(("sync",), timeout=TIMEOUT)
    if result.rc != 0 or result.timed_out:
        raise ApplyStopped(
            f"Unable to write to the disks of {link.session.target}: sync did not succeed",
            "look at the kernel's log there, then go on with: pvectl apply --resume",
        )


def _refuse_skipped(argv: tuple[str, ...], target: str, output: str) -> None:
    """proxmox-boot-tool skips a missing ESP with a warning and exit status 0: that ESP would boot the old set-up."""
    skipped = [line.strip() for line in output.splitlines() if line.startswith("W") and "skipping" in line.lower()]
    if skipped:
        raise ApplyStopped(
            f"Unable to refresh every ESP on {target}: {' '.join(argv)} says {' / '.join(skipped)}",
            "mount or replace that disk, or forget it with: proxmox-boot-tool clean; "
            "then go on with: pvectl apply --resume",
        )


def _judge(link: Link, op: ActionRun, result: TaskResult) -> None:
    wanted = WANTED[op.name]
    verb = {"vm-stop": "shut down", "vm-start": "start"}[op.name]
    if not result.ok:
        raise task_failure(f"{verb} VM {op.vmid}", link.session.target, result)
    status = link.pve.vm_status(_vmid(op))
    if status != wanted:
        raise TaskFailed(
            f"Unable to {verb} VM {op.vmid} on {link.session.target}: its task ended with "
            f"{result.exitstatus}, and it is {status}",
            f"look at the VM's log with: qm status {op.vmid} --verbose",
        )
