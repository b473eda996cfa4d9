"""Our own systemd units on the host: whether systemd starts them, switched on and off."""

from __future__ import annotations

from provision.apply.link import Link
from provision.apply.records import State, UnitFacts, UnitSwitch
from provision.errors import ApplyStopped

FOLDER = "/etc/systemd/system"
TIMEOUT = 90.0


def observe(op: UnitSwitch, link: Link) -> UnitFacts:
    result = link.session.run(("systemctl", "is-enabled", op.name), timeout=TIMEOUT)
    return UnitFacts(name=op.name, enabled=result.rc == 0 and result.stdout.strip() == b"enabled")


def is_done(op: UnitSwitch, state: State) -> bool:
    return isinstance(state, UnitFacts) and state.enabled == op.enabled


def expected(op: UnitSwitch) -> UnitFacts:
    return UnitFacts(name=op.name, enabled=op.enabled)


def act(op: UnitSwitch, state: State, link: Link) -> None:
    """Enable or disable; a timer is stopped too, a service is not: it may be what runs this program."""
    if is_done(op, state):
        _run(link, "sync")  # whoever did it may not have brought it to the disk
        return
    if op.enabled:
        _systemctl(link, "daemon-reload")
        _systemctl(link, "enable", op.name)
    else:
        _systemctl(link, "disable", *(["--now"] if op.name.endswith(".timer") else []), op.name)
    _run(link, "sync")


def _systemctl(link: Link, *words: str) -> None:
    _run(link, "systemctl", *words)


def _run(link: Link, *argv: str) -> None:
    result = link.session.run(argv, timeout=TIMEOUT)
    if result.rc != 0 or result.timed_out:
        cause = result.stderr.decode("utf-8", "replace").strip() or f"exit status {result.rc}"
        raise ApplyStopped(
            f"Unable to run {' '.join(argv)} on {link.session.target}: {cause}",
            "repair what it names, then go on with: pvectl apply --resume",
        )


def word(text: str) -> str:
    """Return one word of a command line in a unit file: quoted, without systemd's own expansions."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
