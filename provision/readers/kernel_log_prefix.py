"""What stands before the message in a line of a kernel log: time, level, host, process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from provision.evidence import Maybe, Unknown
from provision.readers.kernel_log_time import (
    NO_TIME,
    RELATIVE,
    Moment,
    epoch,
    iso_date,
    month,
    named_date,
    since_boot,
)

Form = Literal["dmesg", "dmesg-date", "dmesg-relative", "iso", "syslog", "kmsg", "printk", "journal", "plain"]

LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
KERNEL = "kernel"
NO_LEVEL = Unknown(unknown="the line carries no level", supply="dmesg --decode")


class Head(NamedTuple):
    """A line taken apart.  ``form`` is ``plain`` where nothing stood before the message."""

    form: Form
    time: Maybe[Moment]
    uptime: float | None
    """Seconds since boot, where the line has them (beside a date or alone)."""
    level: Maybe[str]
    process: str
    text: str


_KMSG = re.compile(r"(\d{1,4}),(\d{1,12}),(\d{1,18}),[^;]{0,80};")
_PRINTK = re.compile(r"<(\d{1,3})>(?:\d{1,2}>)?")
_DECODED = re.compile(
    r"(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d|res\d)\s{0,4}:"
    rf"({'|'.join(LEVELS)})\s{{0,4}}:\s?"
)
_UPTIME = re.compile(
    r"\[\s{0,12}(\d{1,10}\.\d{1,9})(?:\s{0,4}<\s{0,12}\d{1,9}\.\d{1,9}>)?\](?:\[\s{0,8}[TC]\d{1,8}\])? ?"
)
_DELTA = re.compile(r"\[\s{0,12}(?:\+\d{1,9}\.\d{1,9}|<\s{0,12}\d{1,9}\.\d{1,9}>)\] ?")
_MINUTE = re.compile(r"\[([^\s\d\[\]]{2,6})\s?(\d{1,2}) (\d{2}:\d{2})\] ?")
_CTIME = re.compile(
    r"\[(?:[^\s\[\]]{1,8},? )?(?:([^\s\d\[\]]{2,12}|\d{1,2}月)\s{1,2}(\d{1,2})|(\d{1,2})\.? ([^\s\d\[\]]{2,12}))\s{1,2}"
    r"(\d{2}:\d{2}:\d{2}) (\d{4})\] ?"
)
_ISO = re.compile(
    r"\[?(?:[^\s\d\[\]]{2,6} )?(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?)"
    r" ?(Z|[+-]\d{2}:?\d{2}|[A-Z]{3,5}(?= ))?\]? "
)
_NAMED = re.compile(
    r"(?:[^\s\d\[<>:]{2,6},? )?(?:([^\s\d\[<>:(]{2,12}|\d{1,2}月)\s{1,2}(\d{1,2})|(\d{1,2})\.? ([^\s\d\[<>:(]{2,12}))\s"
    r"(?:(\d{4})\s)?(\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?)(?: (\d{4}))? "
)
_UNIX = re.compile(r"(\d{9,10}\.\d{3,6}) ")
_SENDER = re.compile(r"(?:[^\s:\[\]()]{1,64} )?([^\s:\[\]()]{1,64})(?:\[\d{1,8}\])?: ?")
_KERNEL_SENDER = re.compile(r"(?:[^\s:\[\]()]{1,64} )?kernel(?:\[\d{1,8}\])?: ?")
_OTHER_SENDER = re.compile(r"[^\s:\[\]()]{1,64} ([A-Za-z][\w.-]{0,40})\[\d{1,8}\]: ?")


def head(line: str) -> Head:
    """Take one clean line apart.  Looks at its first two hundred characters only."""
    level: Maybe[str] = NO_LEVEL
    form: Form = "plain"
    if line[:1].isdigit() and (found := _KMSG.match(line)):
        return _kmsg(line, found)
    if line.startswith("<") and (found := _PRINTK.match(line)):
        level, form, line = LEVELS[int(found[1]) & 7], "printk", line[found.end() :]
    elif found := _DECODED.match(line):
        level, form, line = found[1], "dmesg", line[found.end() :]
    timed = _bracket(line) if line.startswith("[") else _date(line)
    if timed is None:
        sender = _KERNEL_SENDER.match(line) if form == "plain" and "kernel" in line[:80] else None
        if sender:
            return _after_sender("syslog", NO_TIME, level, KERNEL, line[sender.end() :])
        return Head(form, NO_TIME, None, level, KERNEL, line)
    return timed._replace(level=level)


def _kmsg(line: str, found: re.Match[str]) -> Head:
    """A record of /dev/kmsg: priority, sequence number, microseconds since boot, flags."""
    seconds = int(found[3]) / 1_000_000
    text = line[found.end() :]
    process = KERNEL if int(found[1]) >> 3 == 0 else "user"
    return Head("kmsg", Moment("boot", seconds, found[3]), seconds, LEVELS[int(found[1]) & 7], process, text)


def _bracket(line: str) -> Head | None:
    if found := _UPTIME.match(line):
        time = since_boot(found[1], found[1])
        rest = line[found.end() :]
        if "kernel" in rest[:80] and (sender := _KERNEL_SENDER.match(rest)):
            return Head("journal", time, time.seconds, NO_LEVEL, KERNEL, rest[sender.end() :])
        if sender := _OTHER_SENDER.match(rest):
            return Head("journal", time, time.seconds, NO_LEVEL, sender[1], rest[sender.end() :])
        return Head("dmesg", time, time.seconds, NO_LEVEL, KERNEL, rest)
    if found := _CTIME.match(line):
        date = named_date(found[1] or found[4], found[2] or found[3], found[5], found[6], found[0].strip("[] "))
        return Head("dmesg-date", date, None, NO_LEVEL, KERNEL, line[found.end() :])
    if found := _DELTA.match(line):
        return Head("dmesg-relative", RELATIVE, None, NO_LEVEL, KERNEL, line[found.end() :])
    if (found := _MINUTE.match(line)) and month(found[1]):
        date = named_date(found[1], found[2], found[3], None, found[0].strip("[] "))
        return Head("dmesg-relative", date, None, NO_LEVEL, KERNEL, line[found.end() :])
    return _iso(line)


def _date(line: str) -> Head | None:
    for read in _DATES:
        if (found := read(line)) is not None:
            return found
    return None


def _iso(line: str) -> Head | None:
    found = _ISO.match(line)
    if found is None:
        return None
    time = iso_date(found[1], found[2], found[3], found[0].strip("[] "))
    rest = line[found.end() :]
    # dmesg writes a comma before the fraction and names no sender.
    return Head("iso", time, None, NO_LEVEL, KERNEL, rest) if "," in found[2] else _sent("syslog", time, rest)


def _named(line: str) -> Head | None:
    found = _NAMED.match(line)
    if found is None:
        return None
    name, day = found[1] or found[4], found[2] or found[3]
    rest = line[found.end() :]
    if month(name) is None and not _SENDER.match(rest):
        return None
    time = named_date(name, day, found[6], found[5] or found[7], found[0].strip())
    return _sent("syslog", time, rest)


def _unix(line: str) -> Head | None:
    found = _UNIX.match(line)
    return None if found is None else _sent("journal", epoch(float(found[1]), found[1]), line[found.end() :])


_DATES: tuple[Callable[[str], Head | None], ...] = (_iso, _named, _unix)


def _sent(form: Form, time: Maybe[Moment], rest: str) -> Head:
    """What follows a date: host, process and message; a kernel may add its own time."""
    sender = _SENDER.match(rest)
    if sender is None:
        return Head(form, time, None, NO_LEVEL, KERNEL, rest)
    return _after_sender(form, time, NO_LEVEL, sender[1], rest[sender.end() :])


def _after_sender(form: Form, time: Maybe[Moment], level: Maybe[str], process: str, rest: str) -> Head:
    found = _UPTIME.match(rest) if process == KERNEL and rest.startswith("[") else None
    if found is None:
        return Head(form, time, None, level, process, rest)
    uptime = since_boot(found[1], found[1])
    shown = uptime if isinstance(time, Unknown) else time
    return Head(form, shown, uptime.seconds, level, process, rest[found.end() :])
