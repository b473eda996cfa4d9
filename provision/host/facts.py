"""Read single facts out of a capture: a value, ``None`` (looked for, not there) or Unknown."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from provision.capture.model import Capture, Kind
from provision.evidence import Maybe, Unknown

NOT_CAPTURED = "take a new capture as root"


class Facts:
    """The items of one subject of a capture, by path."""

    def __init__(self, capture: Capture, subject: str = "host") -> None:
        self.capture = capture
        self.subject = subject

    def data(self, path: str) -> Maybe[bytes | None]:
        return self.capture.data(path, "file", self.subject)

    def text(self, path: str) -> Maybe[str | None]:
        """Return a file's text, with every final blank and line feed."""
        return self.capture.text(path, "file", self.subject)

    def word(self, path: str) -> Maybe[str | None]:
        """Return a file's text without white space around it."""
        value = self.text(path)
        return value.strip() if isinstance(value, str) else value

    def number(self, path: str) -> Maybe[int | None]:
        """Return an integer in C notation (``0x10de``, ``-1``); Unknown where the text is none."""
        value = self.word(path)
        if not isinstance(value, str):
            return value
        try:
            return int(value, 0)
        except ValueError:
            return Unknown(unknown=f"{path} holds {value!r}, not a number")

    def link(self, path: str) -> Maybe[str | None]:
        """Return the target of a symbolic link as it is written."""
        return self.capture.text(path, "link", self.subject)

    def link_name(self, path: str) -> Maybe[str | None]:
        """Return the last part of a link's target: a driver's or a group's name."""
        target = self.link(path)
        return target.rstrip("/").rsplit("/", 1)[-1] if isinstance(target, str) else target

    def names(self, path: str) -> Maybe[tuple[str, ...] | None]:
        """Return the names in a folder."""
        value = self.capture.text(path, "dir", self.subject)
        return tuple(value.splitlines()) if isinstance(value, str) else value

    def command(self, key: str) -> Maybe[str | None]:
        """Return a command's output; ``None`` where the host has no such command, Unknown where it failed."""
        item = self.capture.item(key, "command", self.subject)
        if item is not None and item.state == "read" and item.rc:
            cause = item.stderr.strip().splitlines()[-1:] or [f"exit status {item.rc}"]
            return Unknown(unknown=f"{key} failed: {cause[0]}", supply=NOT_CAPTURED)
        return self.capture.text(key, "command", self.subject)

    def json(self, key: str) -> Maybe[Any]:
        """Return the JSON that a command printed, ``None`` where there is no such command."""
        value = self.command(key)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            return Unknown(unknown=f"{key} did not print JSON", supply=NOT_CAPTURED)

    @cached_property
    def _by_kind(self) -> dict[Kind, dict[str, str]]:
        kinds: dict[Kind, dict[str, str]] = {}
        for item in self.capture.items:
            if item.subject == self.subject:
                kinds.setdefault(item.kind, {})[item.key] = item.state
        return kinds

    def all(self, pattern: str, kind: Kind = "file") -> Maybe[tuple[str, ...]]:
        """Return the paths of ``kind`` that match and are there (readable or not), sorted.

        ``*`` does not cross a slash.  No path at all counts as "none there" only where the capture says
        that somebody looked.
        """
        depth = pattern.count("/")
        states = {
            key: state
            for key, state in self._by_kind.get(kind, {}).items()
            if key.count("/") == depth and (key == pattern or fnmatchcase(key, pattern))
        }
        found = tuple(sorted(key for key, state in states.items() if state != "absent" and key != pattern))
        if states.get(pattern) in ("denied", "error", "not_asked"):
            return Unknown(unknown=f"{pattern}: {states[pattern]}", supply=NOT_CAPTURED)
        if not states:
            return Unknown(unknown=f"{pattern} was not captured", supply=NOT_CAPTURED)
        return found

    def asked(self, folder: str, kind: Kind = "file") -> bool:
        """True where the capture has anything of ``kind`` in ``folder``, be it that nothing is there."""
        return any(key.rsplit("/", 1)[0] == folder for key in self._by_kind.get(kind, {}))
