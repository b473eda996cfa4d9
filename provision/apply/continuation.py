"""A run on its own host: the reboot ends pvectl too, and a one-shot unit goes on with the run after it."""

from __future__ import annotations

from provision.apply import places
from provision.apply.records import FileFacts, Step, UnitSwitch
from provision.apply.runs import Run
from provision.apply.units import FOLDER, word
from provision.plan.model import FileRemove, FileWrite
from provision.plan.render import shipped_templates

SERVICE = "pvectl-resume.service"
PATH = f"{FOLDER}/{SERVICE}"
NUMBER = 990
"""Its steps are no part of a plan; their numbers only name backups."""


def text_of(run: str, argv: tuple[str, ...]) -> str:
    """Return the unit; ``argv`` is the command up to the run's name."""
    command = " ".join(word(part) for part in (*argv, run))
    values = {"run": run, "folder": places.folder(run), "command": command}
    return shipped_templates()(f"host/{SERVICE}.j2", values)


def install_steps(run: Run, argv: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps before the reboot; none where this machine is not the host."""
    if not argv:
        return ()
    write = FileWrite(path=PATH, content=text_of(run.id, argv), expect=None)
    switch = UnitSwitch(name=SERVICE, enabled=True)
    return (
        Step(
            number=NUMBER, id="continue.unit", title="Let the host go on with this run after the boot", operation=write
        ),
        Step(number=NUMBER + 1, id="continue.enable", title="Enable it", operation=switch),
    )


def removal_steps(run: Run) -> tuple[Step, ...]:
    """Return the steps at the end of a run whose unit was installed."""
    begun = run.intent("continue.unit")
    if begun is None or not isinstance(begun.expected, FileFacts) or begun.expected.meta.sha256 is None:
        return ()
    remove = FileRemove(path=PATH, expect=begun.expected.meta.sha256)
    switch = UnitSwitch(name=SERVICE, enabled=False)
    return (
        Step(number=NUMBER + 2, id="continue.disable", title="Disable the unit that went on", operation=switch),
        Step(number=NUMBER + 3, id="continue.gone", title="Remove it", operation=remove),
    )
