"""Times of kernel log lines: seconds since boot, and dates with the months of a dozen languages."""

# ruff: noqa: RUF001 (months in Cyrillic letters)

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal, NamedTuple

from provision.evidence import Maybe, Unknown


class Moment(NamedTuple):
    """When a line was written."""

    clock: Literal["boot", "wall"]
    seconds: float
    """Since boot, or since 1970 (UTC); a date without a year counts as one of 1972."""
    text: str
    """As it stands in the log."""


NO_TIME = Unknown(unknown="the line carries no time", supply="dmesg, or journalctl -k -o short-precise")
RELATIVE = Unknown(unknown="the line says only how long after the line before", supply="dmesg without --reltime")

_NO_YEAR = 1972
"""A leap year, so that 29 February is a day."""

# January to December: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Czech, Russian, Ukrainian,
# Swedish, Danish, Norwegian, Finnish, Turkish; as :func:`_plain` leaves them.
_MONTHS = (
    "jan janv ene gen sty led янв січ tammi oca january januar janvier enero gennaio janeiro januari stycznia",
    "feb fevr fev lut uno фев февр лют helmi sub february februar fevrier febrero febbraio fevereiro februari lutego",
    "mar marz mars mrz mrt bre мар марта бер maalis march maerz marzo marco maart marca mart",
    "apr avr abr kwi dub апр кві huhti nis april avril abril aprile kwietnia",
    "may mai mag maj mei kve маи мая тра touko mayo maggio maio maja mayis",
    "jun juin giu cze cen июн июня чер kesa haz june juni junio giugno junho czerwca",
    "jul juil lug lip cec июл июля лип heina tem july juli julio luglio julho juillet lipca",
    "aug aout ago sie srp авг сер elo agu august agosto augustus sierpnia agustos",
    "sep sept set wrz zar сен сент вер syys eyl september septembre septiembre settembre setembro wrzesnia",
    "oct okt ott out paz rij окт жов loka eki october oktober octobre octubre ottobre outubro pazdziernika",
    "nov lis ноя нояб лис marras kas november novembre noviembre novembro listopada",
    "dec dez dic gru pro дек гру joulu ara december dezember decembre diciembre dicembre dezembro grudnia",
)


def _plain(name: str) -> str:
    """Return a month's name without case, accents and final dot."""
    spread = unicodedata.normalize("NFD", name.casefold().replace("ł", "l")).rstrip(".")
    return "".join(char for char in spread if not unicodedata.combining(char))


_MONTH_OF = {_plain(name): number for number, names in enumerate(_MONTHS, 1) for name in names.split()}

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(?:[.,](\d{1,9}))?$")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})$")
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})$")


@lru_cache(maxsize=256)
def month(name: str) -> int | None:
    """Return 1 to 12 for the name of a month, short or long; ``None`` for a word that is none.

    Also "8月" and a number: the C library writes months of Japanese and Chinese so.
    """
    digits = name.rstrip("月월. ")
    if digits.isdigit() and digits != name:
        number = int(digits[:4])
        return number if 1 <= number <= 12 else None
    return _MONTH_OF.get(_plain(name))


def since_boot(seconds: str, text: str) -> Moment:
    return Moment("boot", float(seconds), text)


def epoch(seconds: float, text: str) -> Moment:
    return Moment("wall", seconds, text)


def named_date(name: str, day: str, clock: str, year: str | None, text: str) -> Maybe[Moment]:
    """Return the time of ``Aug 25 19:38:04``; ``Unknown`` where the month or the day is none."""
    number = month(name)
    if number is None:
        return Unknown(unknown=f"{name} is no month that is known here", supply="LC_ALL=C journalctl -k")
    return _moment(int(year or _NO_YEAR), number, int(day), clock, None, text)


def iso_date(date: str, clock: str, zone: str | None, text: str) -> Maybe[Moment]:
    """Return the time of ``2025-01-21T04:41:44,283302+00:00``; a zone that is a name counts as UTC."""
    parts = _DATE.match(date)
    if parts is None:
        return NO_TIME
    return _moment(int(parts[1]), int(parts[2]), int(parts[3]), clock, zone, text)


def _moment(year: int, number: int, day: int, clock: str, zone: str | None, text: str) -> Maybe[Moment]:
    time = _CLOCK.match(clock)
    if time is None:
        return NO_TIME
    try:
        at = datetime(year, number, day, int(time[1]), int(time[2]), int(time[3] or 0), tzinfo=_zone(zone))
    except ValueError:
        return Unknown(unknown=f"{text.strip()} is no date", supply="paste the line as the machine wrote it")
    return Moment("wall", at.timestamp() + float(f"0.{time[4] or 0}"), text)


def _zone(zone: str | None) -> timezone:
    parts = _ZONE.match(zone or "")
    if parts is None:
        return UTC
    offset = timedelta(hours=int(parts[2]), minutes=int(parts[3]))
    return timezone(offset if parts[1] == "+" else -offset)
