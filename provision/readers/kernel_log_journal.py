"""Entries of the journal that are no lines: JSON, and the verbose and export forms (one field a line)."""

from __future__ import annotations

import json
import re
from typing import Any

from provision.evidence import Maybe
from provision.readers.kernel_log_prefix import KERNEL, LEVELS, NO_LEVEL, Head
from provision.readers.kernel_log_time import NO_TIME, Moment, epoch

_FIELD = re.compile(r"\s{0,8}(_{0,2}[A-Z][A-Z0-9_]{1,63})=(.*)", re.DOTALL)
_VERBOSE_HEAD = re.compile(r"[^\[]{10,60} \[s=[0-9a-f]{1,64};")
_WANTED = frozenset({"MESSAGE", "PRIORITY", "_TRANSPORT", "SYSLOG_IDENTIFIER", "_KERNEL_DEVICE"})
_TIMES = ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP")
_UPTIMES = ("_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP")


def json_entry(line: str) -> Head | None:
    """Return the entry of one line of ``journalctl -o json``; ``None`` where it is none."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or "MESSAGE" not in values:
        return None
    return entry(values)


def entry(values: dict[str, Any]) -> Head:
    """Return the entry with these fields; numbers that are none count as absent."""
    micros = next((n for key in _TIMES if (n := _number(values.get(key))) is not None), None)
    up = next((n for key in _UPTIMES if (n := _number(values.get(key))) is not None), None)
    uptime = None if up is None else up / 1e6
    time: Maybe[Moment] = NO_TIME
    if micros is not None:
        time = epoch(micros / 1e6, str(micros))
    elif uptime is not None:
        time = Moment("boot", uptime, f"{uptime:.6f}")
    level = _number(values.get("PRIORITY"))
    return Head(
        "journal", time, uptime, NO_LEVEL if level is None else LEVELS[level & 7], _process(values), _text(values)
    )


def _number(value: object) -> int | None:
    text = str(value) if isinstance(value, (str, int)) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _process(values: dict[str, Any]) -> str:
    if values.get("_TRANSPORT") == "kernel":
        return KERNEL
    return str(values.get("SYSLOG_IDENTIFIER") or KERNEL)


def _text(values: dict[str, Any]) -> str:
    """The message; the journal writes one that is no UTF-8 as a list of bytes."""
    message = values["MESSAGE"]
    if isinstance(message, list):
        return bytes(one for one in message if isinstance(one, int) and 0 <= one < 256).decode("utf-8", "replace")
    return str(message or "")


class Fields:
    """Gathers the fields of one entry of the verbose or the export form, line by line."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._first = 0
        self.is_open = False

    def takes(self, number: int, line: str) -> bool:
        """Take ``line`` if it belongs to such an entry.  A head must have come before its fields."""
        if self.begins(line):
            self._values, self._first, self.is_open = {}, number, True
            return True
        field = _FIELD.match(line) if self.is_open else None
        if field is None:
            return False
        if field[1] in _WANTED or field[1] in _TIMES or field[1] in _UPTIMES:
            self._values[field[1]] = field[2]
            self._first = number if field[1] == "MESSAGE" else self._first
        return True

    def begins(self, line: str) -> bool:
        return line.startswith("__CURSOR=") or ("[s=" in line and _VERBOSE_HEAD.match(line) is not None)

    def close(self) -> tuple[int, Head] | None:
        """Return the entry that is complete, with the line of its message."""
        values, self._values, self.is_open = self._values, {}, False
        return (self._first, entry(values)) if "MESSAGE" in values else None
