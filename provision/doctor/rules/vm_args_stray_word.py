"""args has a word that belongs to no option."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-args-stray-word"
SOURCE = "QEMU, qemu-options.hx"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    stray = guest.args.stray
    if not stray:
        return
    hint = "-cpu is missing before it" if any("," in word for word in stray) else "its option is missing"
    yield found(
        ID,
        "error",
        (guest.subject, "args"),
        f"{guest.name}: args has {', '.join(stray)} without an option ({hint}?)",
        (guest.cite("args"),),
        "QEMU takes the word for the file of a disk image and does not start",
        f"put the option before the word (a processor: -cpu {stray[0]}), or remove the word from args",
        source=SOURCE,
    )


RULE = Rule(ID, "args has a word without an option, which QEMU takes for a disk", check)
