"""The loop: precondition, intent, act, read back, receipt.  The receipt is on disk before the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from provision.apply import steps
from provision.apply.link import Link
from provision.apply.lock import Lock
from provision.apply.outcome import ApplyOptions, Seams
from provision.apply.records import Event, Intent, Receipt, State, Step
from provision.apply.runs import Run
from provision.errors import ApplyStopped, Interrupted


@dataclass
class Executor:
    """Carries out the steps of one run.  ``report`` takes a line of progress."""

    run: Run
    link: Link
    lock: Lock
    options: ApplyOptions
    report: Callable[[str], None]
    seams: Seams

    def add(self, event: Event) -> None:
        self.run.add(self.link.session, event, self.seams.now())

    def pause_if_asked(self) -> None:
        """Raise Interrupted where Ctrl-C was pressed since the last step."""
        if self.seams.interrupted():
            raise Interrupted(f"Stopped between two steps of run {self.run.id} on {self.link.session.target}")

    def do_all(self, todo: Iterable[Step]) -> None:
        for step in todo:
            if self.run.receipt(step.id) is None:
                self.do(step)

    def do(self, step: Step) -> None:
        """Do one step, or find that it was done when the controller went away."""
        self.pause_if_asked()
        self.lock.check(self.link.session)
        self.report(step.title)
        state = steps.observe(step.operation, self.link)
        begun = self.run.intent(step.id)
        if begun is not None and steps.is_done(step.operation, state):
            self.add(Receipt(step=step.id, before=begun.before, after=state, note="found done"))
            return
        self._require_ready(step, state, begun)
        if begun is None:
            kept = steps.keep_backup(step.operation, self.link, self.run.id, step.number)
            expected = steps.expected(step.operation, state)
            begun = Intent(step=step.id, before=state, expected=expected, backup=kept, needs_reboot=step.needs_reboot)
            self.add(begun)
        steps.act(step.operation, state, self.link, self.options, self.report)
        after, note = self._read_back(step), steps.note_of(step.operation)
        self.add(Receipt(step=step.id, before=begun.before, after=after, note=note))

    def _require_ready(self, step: Step, state: State, begun: Intent | None) -> None:
        if steps.is_ready(step.operation, state):
            return
        cause = "it is neither as before the step nor as after it" if begun else "it changed since the plan was made"
        raise ApplyStopped(
            f"Unable to go on with step {step.id} ({step.title}) on {self.link.session.target}: {cause}",
            f"look at what changed it; then undo the run with: pvectl rollback {self.run.id}",
        )

    def _read_back(self, step: Step) -> State:
        state = steps.observe(step.operation, self.link)
        if steps.is_done(step.operation, state) or steps.is_repeatable(step.operation):
            return state
        raise ApplyStopped(
            f"Unable to prove step {step.id} ({step.title}) on {self.link.session.target}: "
            "it does not read back as it was written",
            f"look at it on the host; undo the run with: pvectl rollback {self.run.id}",
        )
