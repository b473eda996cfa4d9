"""What only several messages together show: slow start of large BARs, a card's sound on the host's driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.doctor.log.sighting import Sighting, full
from provision.doctor.log.signatures import BY_ID
from provision.readers.kernel_log import KernelLog
from provision.readers.kernel_log_record import Record

_BDF = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_SIZED = re.compile(rf"^pci ({_BDF}): (?:\[10de:|reg 0x[0-9a-f]{{2}}: \[mem|BAR [0-5] \[mem)")
_SLOW_SECONDS = 4.0
"""Sizing a BAR takes microseconds where it is mapped in large pieces."""
_VFIO = re.compile(rf"^vfio-pci ({_BDF}): (?:vgaarb|enabling device|vfio_)")
_SOUND = re.compile(rf"^snd_hda_intel ({_BDF}): enabling device")


def together(log: KernelLog) -> Iterator[Sighting]:
    """Yield sightings that no single message makes."""
    yield from _slow_bars(log)
    yield from _sound_on_host(log)


def _slow_bars(log: KernelLog) -> Iterator[Sighting]:
    """The kernel of a guest turns each BAR off and on to size it; QEMU maps it anew each time."""
    nvidia = {bdf for bdf, device in log.facts.devices.items() if device.vendor == "10de"}
    lines: dict[tuple[int, str], list[Record]] = {}
    for record in log.records:
        found = _SIZED.match(record.text)
        if found and record.uptime is not None and full(found[1]) in nvidia:
            lines.setdefault((record.boot, full(found[1])), []).append(record)
    slow = {key: records for key, records in lines.items() if _seconds(records) >= _SLOW_SECONDS}
    total = f"{sum(map(_seconds, slow.values())):.0f}"
    for (_, bdf), records in slow.items():
        yield Sighting(BY_ID["bar-sizing-slow"], records[0], bdf, {"seconds": total})


def _seconds(records: Sequence[Record]) -> float:
    return (records[-1].uptime or 0.0) - (records[0].uptime or 0.0)


def _sound_on_host(log: KernelLog) -> Iterator[Sighting]:
    """Function 0 on vfio-pci and function 1 of the same card on the host's driver for sound."""
    given = {full(hit[1]) for record in log.records if (hit := _VFIO.match(record.text))}
    seen: set[str] = set()
    for record in log.records:
        found = _SOUND.match(record.text)
        sound = full(found[1]) if found else ""
        if sound.endswith(".1") and f"{sound[:-1]}0" in given and sound not in given | seen:
            seen.add(sound)
            yield Sighting(BY_ID["sound-on-host"], record, sound, {})
