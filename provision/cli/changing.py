"""What ``apply`` and ``rollback`` have in common: the words of the command line, the ways, the answer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.cli.context import Site, open_pve, open_session
from provision.cli.interrupts import Interrupts, interrupts
from provision.cli.output import OutputFormat, answer, confirm, emit_json, progress, style
from provision.errors import (
    ConnectionCut,
    ConnectionRefused,
    NoPython,
    PveAuthFailed,
    PveError,
    TimeLimit,
    UsageError,
)

if TYPE_CHECKING:
    from provision.apply.outcome import ApplyOptions, RunOutcome
    from provision.pve.session import PveSession
    from provision.remote.session import Session


@dataclass(frozen=True)
class Words:
    """Host, plan file and run: told apart by their form, in any order."""

    host: str | None = None
    plan: Path | None = None
    run: str | None = None


def parse_words(words: Sequence[str], verb: str) -> Words:
    """Return what the words name.  Raises UsageError for two of a kind."""
    from provision.apply.places import is_run_id

    found = Words()
    for word in words:
        kind = "plan" if word.endswith(".json") else "run" if is_run_id(word) else "host"
        if getattr(found, kind) is not None:
            raise UsageError(
                f"Unable to understand {word!r}: there is a {kind} already, {getattr(found, kind)}",
                f"pvectl {verb} --help shows what may be given",
            )
        if kind == "plan":
            found = replace(found, plan=Path(word))
        else:
            found = replace(found, run=word) if kind == "run" else replace(found, host=word)
    return found


@dataclass(frozen=True)
class Work:
    """A host that is open for changes."""

    site: Site
    session: Session
    pve: PveSession
    handler: Interrupts
    yes: bool

    def ask(self, question: str) -> bool:
        is_wanted = confirm(question, yes=self.yes)
        self.handler.arm()
        return is_wanted

    def ways(self, options: ApplyOptions) -> dict[str, Any]:
        """Return the keyword arguments that every verb of :mod:`provision.apply.run` takes."""
        from provision.apply.outcome import Seams
        from provision.remote.connect import connect

        door = os.environ.get("PVECTL_LAB_DOOR")
        return {
            "options": options,
            "report": progress,
            "connect": lambda: connect(self.site.target, lab_door=door),
            "connect_pve": lambda session: open_pve(self.site, session),
            "seams": Seams(interrupted=self.handler.pressed),
        }


NOT_THERE = (ConnectionRefused, ConnectionCut, TimeLimit, NoPython)
"""How a host answers that is going down or coming up; what must not be waited out is not among them."""

POLL_SECONDS = 5.0


@contextmanager
def open_work(site: Site, *, yes: bool, patience: float = 0.0) -> Iterator[Work]:
    """Open the host's session and Proxmox' objects, and watch for Ctrl-C.

    ``patience`` is how many seconds a host that does not answer is waited for: it may be in the middle of a reboot.
    """
    progress(f"connecting to {site.name} ...")
    _wait_for(site, patience)
    with interrupts() as handler, open_session(site) as session:
        yield Work(site, session, open_pve(site, session), handler, yes)


def _wait_for(site: Site, patience: float) -> None:
    """Return once the host and its Proxmox answer, or when patience ends: the error is told by the next try."""
    end = time.monotonic() + patience
    said = ""
    while time.monotonic() < end:
        try:
            with open_session(site) as session:
                open_pve(site, session).version()
        except (*NOT_THERE, PveError) as error:
            if isinstance(error, PveAuthFailed):
                return
            if error.message != said:
                said = error.message
                progress(f"waiting for {site.name}, which may be rebooting: {said}")
            time.sleep(POLL_SECONDS)
        else:
            return


def options_for(site: Site, *, reboot: bool, stop_guests: bool) -> ApplyOptions:
    """Return what the command line and the inventory's policies allow."""
    from provision.apply.outcome import ApplyOptions

    allowed = stop_guests or site.policies.guests == "stop"
    return ApplyOptions(
        host=site.name,
        reboot=reboot,
        stop_guests=allowed,
        policies=site.policies,
        resume_argv=_resume_argv(site, stop_guests=stop_guests) if reboot else (),
    )


def _resume_argv(site: Site, *, stop_guests: bool) -> tuple[str, ...]:
    """Return how this very program goes on after a reboot of its own machine; empty where the host is another one."""
    if site.target.kind != "local":
        return ()
    beside = Path(sys.executable).parent / "pvectl"
    program = (str(beside),) if beside.exists() else (sys.executable, "-m", "provision.cli")
    where = ("-i", str(site.inventory_path.absolute())) if site.inventory_path else ()
    allowed = ("--stop-guests",) if stop_guests else ()
    return (*program, "apply", site.name, *where, "--yes", *allowed, "--resume")


def show(outcome: RunOutcome, output: OutputFormat) -> int:
    """Write the answer and return the exit code."""
    if output is OutputFormat.json:
        emit_json("run", {**outcome.model_dump(mode="json"), "exit_code": outcome.exit_code})
    else:
        answer(outcome_text(outcome, style))
    return outcome.exit_code


def outcome_text(outcome: RunOutcome, paint: Callable[[str, str], str]) -> str:
    """Return how a run ended, as people read it; its steps were progress, and are in the JSON."""
    lines = [paint(_head(outcome), "bold")]
    lines += [f"Note: {note}" for note in outcome.notes]
    if outcome.next_command:
        lines.append(f"Next: {paint(outcome.next_command, 'cyan')}")
    return "\n".join(lines)


def _head(outcome: RunOutcome) -> str:
    what = {"apply": "Apply", "rollback": "Rollback"}[outcome.kind]
    run = f" (run {outcome.run})" if outcome.run else ""
    count = f"{len(outcome.steps)} step{'' if len(outcome.steps) == 1 else 's'}"
    return {
        "done": f"{what} done: {count}{run}.",
        "nothing": f"{what}: nothing to do{run}.",
        "not-begun": f"That run had not begun{run}.",
        "confirmed": f"Confirmed: the host keeps its new boot set-up{run}.",
        "reboot-needed": f"{what}: {count} done, the host has to reboot{run}.",
    }[outcome.status]
