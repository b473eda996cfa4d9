"""The journal: one JSON line per event, appended and synced to disk before the next act.

A line that was being written when the power, the disk or the connection went is torn.  The next
event then begins a line of its own, so a torn line stands last or right before a ``resumed`` or ``dead-man``.
Anything else that does not parse is damage.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from provision.apply.records import DeadMan, Event, Resumed
from provision.envelope import unwrap, wrap
from provision.errors import PvectlError
from provision.remote.session import Session

_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


def line_of(event: Event, now: datetime) -> bytes:
    """Return the event as one line with its line feed."""
    document = wrap("receipt", event.model_dump(mode="json"), created=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse(data: bytes, source: str) -> tuple[tuple[Event, ...], bool]:
    """Return the events, and whether the last line is torn.  ``source`` names the file in messages.

    Raises PvectlError where a line in the middle is damaged or a newer pvectl wrote it.
    """
    events: list[Event] = []
    torn_at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        event = _event(line, source) if line.strip() else None
        if event is None:
            torn_at = torn_at or (number if line.strip() else 0)
            continue
        if torn_at and not isinstance(event, (Resumed, DeadMan)):
            raise PvectlError(
                f"Unable to read {source}: line {torn_at} is damaged",
                "compare the file with a copy; nothing was changed by reading it",
            )
        torn_at = 0
        events.append(event)
    return tuple(events), bool(data) and not data.endswith(b"\n")


def _event(line: bytes, source: str) -> Event | None:
    document = _json(line)
    if document is None:
        return None
    data = unwrap(document, "receipt", source=source)
    try:
        return _EVENTS.validate_json(json.dumps(data))
    except ValidationError as error:
        raise PvectlError(
            f"Unable to read {source}: an event is not as pvectl writes it ({error.error_count()} problems)",
            "compare the file with a copy; nothing was changed by reading it",
        ) from error


def _json(line: bytes) -> Any | None:
    try:
        return json.loads(line.decode("utf-8"))
    except ValueError:
        return None


def append(session: Session, path: str, event: Event, now: datetime, *, torn: bool) -> None:
    """Write one event to disk.  ``torn``: the file does not end with a line feed."""
    session.append(path, (b"\n" if torn else b"") + line_of(event, now))
