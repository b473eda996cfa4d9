"""Stop and start VMs again and again through Proxmox, and look each time whether their GPUs came back.

One VM after the other.  A cycle is: the guest shuts down; the host's kernel log says nothing of a stuck reset; the VM
starts; the guest answers with a new boot identity; every GPU works.  The first trouble ends a VM's cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from provision.errors import Interrupted, PvectlError
from provision.evidence import Maybe, Unknown
from provision.guest.facts import GuestFacts
from provision.host.quarantine import Fault, Quarantined
from provision.pve.session import TaskResult
from provision.remote.session import Want
from provision.verify import cycles_guest, cycles_host
from provision.verify.cycles_advice import advice
from provision.verify.cycles_guest import Seen
from provision.verify.cycles_model import Cycle, CyclesReport, Step, Trouble, VmCycles
from provision.verify.cycles_quarantine import add
from provision.verify.cycles_ways import CycleOptions, VmTask, Ways
from provision.verify.facts import Judgement


class _Ended(Exception):
    """The cycles of a VM are over before their number."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble


class _Stopped(Exception):
    """Ctrl-C was pressed."""


def run_cycles(tasks: Sequence[VmTask], options: CycleOptions, ways: Ways) -> CyclesReport:
    """Cycle the VMs and return what came of it.  Troubles are part of the report, not errors.

    Every VM is left as it was found, unless one of its GPUs did not come back: then it is left stopped and the GPU
    is recorded on the host.  Raises :class:`Interrupted` at a second Ctrl-C, saying in which state the VM is.
    """
    found: list[VmCycles] = []
    quarantined: tuple[Quarantined, ...] = ()
    for task in tasks:
        run = _Run(task, options, ways)
        found.append(run.all())
        quarantined += run.quarantined
        if run.is_interrupted or (found[-1].trouble is not None and found[-1].trouble.fault == "error"):
            break
    return CyclesReport(
        host=ways.host,
        reset=options.reset,
        vms=tuple(found),
        quarantined=quarantined,
        interrupted=any(vm.state.startswith(_CUT_SHORT) for vm in found),
    )


_CUT_SHORT = "interrupted: "
_OF_A_GPU: frozenset[Fault] = frozenset({"reset", "power", "start", "gsp", "gpus"})


@dataclass
class _Run:
    """The cycles of one VM."""

    task: VmTask
    options: CycleOptions
    ways: Ways
    cycles: list[Cycle] = field(default_factory=list)
    quarantined: tuple[Quarantined, ...] = ()
    notes: list[str] = field(default_factory=list)
    is_interrupted: bool = False
    before: Literal["running", "stopped"] = "stopped"
    by_ha: bool = False
    boot_id: str = ""
    slots: dict[str, int] = field(default_factory=dict)
    facts: Maybe[GuestFacts] = field(default_factory=lambda: Unknown(unknown="the guest was not asked yet"))

    @property
    def name(self) -> str:
        return f"VM {self.task.vmid}"

    def all(self) -> VmCycles:
        trouble, state = None, ""
        try:
            self.before = self.ways.pve.vm_status(self.task.vmid)
            self.by_ha = self.ways.pve.vm_is_ha(self.task.vmid)
            self._first_look()
            for number in range(1, self.options.count + 1):
                self._cycle(number)
            state = self._back()
        except _Ended as ended:
            trouble, state = self._after(ended.trouble)
        except _Stopped:
            self.is_interrupted = True
            state = _CUT_SHORT + self._as_before()
        except KeyboardInterrupt as pressed:
            raise Interrupted(
                f"Unable to finish the cycles on {self.ways.host}: interrupted twice; {self._state()}",
                f"look at it with: qm status {self.task.vmid}",
            ) from pressed
        except PvectlError as error:
            hint = (error.hint,) if error.hint else ()
            steps = (*hint, *advice("error", None, self.task.vmid))
            trouble, state = Trouble(fault="error", text=error.message, advice=steps), self._state()
        return VmCycles(
            vmid=self.task.vmid,
            wanted=self.options.count,
            gpus=len(self.task.gpus),
            by_ha=self.by_ha,
            before=self.before,
            cycles=tuple(self.cycles),
            trouble=trouble,
            state=state,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _first_look(self) -> None:
        if self.before == "running":
            seen = cycles_guest.look(self.ways.connect, self.task.target)
            if isinstance(seen, Unknown):
                text = f"the guest does not answer before the first stop: {seen.unknown}"
                raise _Ended(self._trouble("guest", text))
            self._is_up(seen)

    def _cycle(self, number: int) -> None:
        self._check_interrupt()
        self.ways.report(f"{self.name}: cycle {number} of {self.options.count}")
        self.cycles.append(Cycle(number=number, seconds={}))
        moment = cycles_host.mark(cycles_host.read_log(self.ways.session))
        if self.ways.pve.vm_status(self.task.vmid) == "running":
            self._stop()
        self._judge_reset(moment)
        self._check_interrupt()
        self._start(moment)
        self._come_up("boot", "gsp")
        if self.options.reset:
            self._judge_all(moment)
            self._check_interrupt()
            self._reset()
            self._come_up("reset_boot", "reset_gsp")
        self._judge_all(moment)
        self.cycles[-1] = self.cycles[-1].model_copy(update={"is_done": True})

    def _stop(self) -> None:
        with self._timed("stop"):
            done = self.ways.pve.vm_shutdown(
                self.task.vmid, timeout=self.options.stop_timeout, progress=self.ways.report
            )
        if not done.ok:
            raise _Ended(self._trouble("stop", f"the guest did not shut down: {done.problem}", done.log_tail[-5:]))

    def _start(self, moment: cycles_host.Mark) -> None:
        with self._timed("start"):
            done = self.ways.pve.vm_start(self.task.vmid, progress=self.ways.report)
        self._note(done)
        if not done.ok:
            self._judge_reset(moment)
            named = tuple(bdf for _, bdf in self.task.gpus if bdf in done.problem)
            raise _Ended(self._trouble("start", f"it did not start: {done.problem}", done.log_tail[-5:], named))

    def _reset(self) -> None:
        with self._timed("reset"):
            done = self.ways.pve.vm_reset(self.task.vmid, progress=self.ways.report)
        if not done.ok:
            raise _Ended(self._trouble("start", f"it could not be reset: {done.problem}", done.log_tail[-5:]))

    def _note(self, done: TaskResult) -> None:
        self.notes += [f"Proxmox warned at a start: {warning}" for warning in done.warnings]

    def _come_up(self, boot: Step, gsp: Step) -> None:
        """Wait for another boot of the guest, then for its GPUs."""
        with self._timed(boot):
            self._is_up(self._wait_for_boot())
        with self._timed(gsp):
            self.facts = self._wait_for_gpus()
        if not isinstance(self.facts, Unknown) and self.facts.boot_id not in (None, self.boot_id):
            text = f"the guest booted once more by itself (boot {self.facts.boot_id} after {self.boot_id})"
            raise _Ended(self._trouble("guest", text))

    def _is_up(self, seen: Seen) -> None:
        self.boot_id, self.slots = seen.boot_id, seen.slots

    def _wait_for_boot(self) -> Seen:
        end = self.ways.now() + self.options.boot_timeout
        said = ""
        while True:
            seen = cycles_guest.look(self.ways.connect, self.task.target)
            if isinstance(seen, Seen) and seen.boot_id != self.boot_id:
                return seen
            said = seen.unknown if isinstance(seen, Unknown) else "it still answers from its old boot"
            if self.ways.now() >= end:
                limit = self.options.boot_timeout
                raise _Ended(self._trouble("guest", f"the guest did not come up within {limit:.0f} s: {said}"))
            self._check_interrupt()
            self.ways.sleep(self.options.poll)

    def _wait_for_gpus(self) -> Maybe[GuestFacts]:
        end = self.ways.now() + self.options.settle_timeout
        while True:
            facts = self.ways.probe(self.task.vmid, self.task.target)
            if cycles_guest.is_settled(facts, len(self.task.gpus)) or self.ways.now() >= end:
                return facts
            self._check_interrupt()
            self.ways.sleep(self.options.poll)

    def _judge_reset(self, moment: cycles_host.Mark) -> None:
        text = cycles_host.since(cycles_host.read_log(self.ways.session), moment)
        self._put(reset=cycles_host.judge_log(text, self.task.functions))
        found = () if isinstance(text, Unknown) else cycles_host.stuck(text, self.task.functions)
        if found:
            named = tuple(dict.fromkeys(one.bdf for one in found if one.bdf is not None))
            lines = tuple(one.line for one in found)
            raise _Ended(self._trouble(found[0].fault, f"the reset did not work: {found[0].line}", lines, named))

    def _judge_all(self, moment: cycles_host.Mark) -> None:
        self._put(gsp=cycles_guest.judge_gsp(self.facts))
        self._put(gpus=cycles_guest.judge_gpus(self.facts, len(self.task.gpus)))
        self._judge_reset(moment)
        last = self.cycles[-1]
        judged: tuple[tuple[Fault, Judgement | None], ...] = (("gsp", last.gsp), ("gpus", last.gpus))
        for fault, judgement in judged:
            if judgement is None or judgement.state != "fail":
                continue
            which, is_sure = cycles_guest.suspects(self.facts, self.slots, self.task.gpus)
            lines = () if isinstance(self.facts, Unknown) else cycles_guest.complaints(self.facts)
            evidence = tuple(dict.fromkeys(one.record.text for one in lines))[:8]
            raise _Ended(self._trouble(fault, judgement.text, evidence, which, is_sure=is_sure))

    def _trouble(
        self,
        fault: Fault,
        text: str,
        evidence: Sequence[str] = (),
        named: tuple[str, ...] = (),
        *,
        is_sure: bool = True,
    ) -> Trouble:
        all_of = tuple(bdf for _, bdf in self.task.gpus)
        which = named or (all_of if fault in _OF_A_GPU else ())
        sure = is_sure and (bool(named) or len(which) == 1)
        steps = advice(fault, which[0] if len(which) == 1 else None, self.task.vmid)
        return Trouble(
            fault=fault, text=text, evidence=tuple(evidence), suspects=which, sure=sure or not which, advice=steps
        )

    def _after(self, trouble: Trouble) -> tuple[Trouble, str]:
        """A GPU that did not come back is recorded, and its VM is left stopped; else the VM stays as it is."""
        if trouble.fault not in _OF_A_GPU or (trouble.fault == "start" and not trouble.sure):
            return trouble, self._state()
        try:
            self.quarantined = self._entries(trouble)
            add(self.ways.session, self.quarantined)
            if self.ways.pve.vm_status(self.task.vmid) == "running":
                self._leave_stopped()
        except PvectlError as error:
            return trouble.model_copy(update={"evidence": (*trouble.evidence, error.message)}), self._state()
        return trouble, self._state() + "; no start is tried with a GPU that did not come back"

    def _entries(self, trouble: Trouble) -> tuple[Quarantined, ...]:
        [boot] = self.ways.session.read([Want(kind="file", pattern=cycles_guest.BOOT_ID)])
        return tuple(
            Quarantined(
                bdf=bdf,
                vmid=self.task.vmid,
                since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                fault=trouble.fault,
                reason=f"cycle {len(self.cycles)}: {trouble.text}",
                boot_id=boot.data.decode("ascii", "replace").strip(),
                sure=trouble.sure,
            )
            for bdf in trouble.suspects
        )

    def _leave_stopped(self) -> None:
        self.ways.report(f"{self.name}: shutting it down, because a GPU did not come back")
        self.ways.pve.vm_shutdown(self.task.vmid, timeout=self.options.stop_timeout, progress=self.ways.report)

    def _back(self) -> str:
        """End as it was found; a stop at the very end is judged as the others are."""
        moment = cycles_host.mark(cycles_host.read_log(self.ways.session))
        state = self._as_before()
        if self.before == "stopped":
            self._judge_reset(moment)
        return state

    def _as_before(self) -> str:
        """Bring the VM back to the state that it was found in, and say which one that is."""
        now = self.ways.pve.vm_status(self.task.vmid)
        if now == self.before:
            return self._state()
        self.ways.report(f"{self.name}: bringing it back to where it was ({self.before})")
        if self.before == "running":
            done = self.ways.pve.vm_start(self.task.vmid, progress=self.ways.report)
        else:
            done = self.ways.pve.vm_shutdown(
                self.task.vmid, timeout=self.options.stop_timeout, progress=self.ways.report
            )
        return self._state() + ("" if done.ok else f": {done.problem}")

    def _state(self) -> str:
        try:
            now = self.ways.pve.vm_status(self.task.vmid)
        except PvectlError as error:
            return f"the state of {self.name} is not known: {error.message}"
        word = {"running": "runs", "stopped": "is stopped"}
        was = "as before" if now == self.before else f"it {'ran' if self.before == 'running' else 'was stopped'} before"
        return f"{self.name} {word[now]}, {was}"

    def _check_interrupt(self) -> None:
        if self.ways.interrupted():
            raise _Stopped

    @contextmanager
    def _timed(self, step: Step) -> Iterator[None]:
        began = self.ways.now()
        yield
        last = self.cycles[-1]
        self.cycles[-1] = last.model_copy(update={"seconds": {**last.seconds, step: self.ways.now() - began}})

    def _put(self, **judgements: object) -> None:
        self.cycles[-1] = self.cycles[-1].model_copy(update=judgements)
