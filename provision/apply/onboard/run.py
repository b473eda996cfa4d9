"""A run as its journal on the host tells it, and the decision of its dead-man."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Optional

from provision.apply.onboard.host import Failed, Host, Json, sync_folder, sync_write


class Run:
    """The run as its journal tells it."""

    def __init__(self, host: Host, folder: str) -> None:
        self.host = host
        self.folder = folder.rstrip("/")
        self.journal = host.at(f"{self.folder}/journal.jsonl")
        self.version = ""
        self.events = [event for line in self.journal.read_bytes().split(b"\n") for event in self._event(line)]

    def _event(self, line: bytes) -> list[Json]:
        """Return the event of a line; a torn line, cut off by a crash, says nothing."""
        try:
            document = json.loads(line.decode("utf-8"))
        except ValueError:
            return []
        self.version = document["version"]
        return [document["data"]]

    @property
    def started(self) -> Json:
        return self.events[0]

    @property
    def terms(self) -> Json:
        return dict(self.started.get("dead_man") or {})

    def of(self, name: str) -> list[Json]:
        return [event for event in self.events if event["event"] == name]

    def told(self, did: str) -> Optional[Json]:  # noqa: UP045 - Python 3.9
        return next((event for event in self.of("dead-man") if event["did"] == did), None)

    def receipt(self, step: str) -> Optional[Json]:  # noqa: UP045 - Python 3.9
        return next((event for event in self.of("receipt") if event["step"] == step), None)

    def intent(self, step: str) -> Optional[Json]:  # noqa: UP045 - Python 3.9
        return next((event for event in reversed(self.of("intent")) if event["step"] == step), None)

    def plan(self) -> Json:
        """Return the run's plan, empty for a run without one.  Raises Failed where it is not the run's own."""
        wanted = self.started.get("plan_sha256")
        if wanted is None:
            return {"changes": []}
        path = f"{self.folder}/plan.json"
        data = self.host.at(path).read_bytes()
        if hashlib.sha256(data).hexdigest() != wanted:
            raise Failed(f"{path} is not the plan that the run began with")
        return dict(json.loads(data)["data"])

    def tell(self, did: str, notes: Sequence[str] = ()) -> None:
        """Say in the journal what was done."""
        self.write({"event": "dead-man", "did": did, "boot_id": self.host.boot_id(), "notes": list(notes)})

    def write(self, event: Json) -> None:
        """Add an event to the journal, as a line of its own, synced."""
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = {"schema": "pvectl.receipt/1", "version": self.version, "created": created, "data": event}
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        is_torn = not self.journal.read_bytes().endswith(b"\n")
        with self.journal.open("ab") as stream:
            stream.write((b"\n" if is_torn else b"") + line)
            stream.flush()
            os.fsync(stream.fileno())
        self.events.append(event)

    # the decision

    @property
    def decision(self) -> Path:
        return self.host.at(f"{self.folder}/deadman.decided")

    def decided(self) -> str:
        return str(json.loads(self.decision.read_text(encoding="ascii"))["decided"]) if self.decision.exists() else ""

    def decide(self, what: str) -> str:
        """Make the decision where there is none, and return the one that holds: a link is made once or not at all."""
        draft = self.decision.with_name(f"deadman.{what}-{os.getpid()}")
        sync_write(draft, json.dumps({"decided": what, "boot_id": self.host.boot_id()}).encode())
        try:
            os.link(draft, self.decision)
        except FileExistsError:
            return self.decided()
        finally:
            draft.unlink()
            sync_folder(draft.parent)
        return what

    # what the run changed

    def intents(self, kind: str) -> list[Json]:
        return [event for event in self.of("intent") if event["before"]["kind"] == kind]

    def left(self, kind: str, name: Callable[[Json], str]) -> dict[str, list[Json]]:
        """Return every state of each object that the run itself made or was about to make."""
        states: dict[str, list[Json]] = {}
        for event in self.events:
            after = event.get("after") if event["event"] == "receipt" else event.get("expected")
            for state in (event.get("before"), after):
                if state and state["kind"] == kind:
                    states.setdefault(name(state), []).append(state)
        return states


@contextlib.contextmanager
def alone(run: Run) -> Iterator[None]:
    """One verb at a time for a run: the timer may tick while somebody confirms."""
    with run.host.at(f"{run.folder}/deadman.busy").open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
