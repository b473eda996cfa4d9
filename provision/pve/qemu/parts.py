"""Which words of a QEMU command belong to the predicted parts, and how two commands differ there."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from provision.pve.args import Args
from provision.pve.args_words import ArgsReading

_KVM = re.compile(r".*/(?:kvm|qemu-system-\w+)")
_DEVICES = re.compile(
    r"(?:vfio-pci|pcie-root-port|pci-bridge|intel-iommu|virtio-iommu-pci|VGA,id=vga|virtio-balloon-pci,id=balloon0)\b.*"
)
_GLOBALS = re.compile(r"(?:ICH9-LPC|PIIX4_PM)\.(?:disable_s[34]|acpi-pci-hotplug.*)=\w+|kvm-pit\..*")
_WHOLE = ("smp", "cpu", "m", "numa", "readconfig", "vga", "nographic")
_SKIPPED_AFTER = ("snapshot", "rtc")
_ELLIPSIS = "..."


@dataclass(frozen=True)
class Option:
    """One option with its value; ``name`` is empty for a word of its own."""

    name: str
    value: str

    @property
    def text(self) -> str:
        if not self.name:
            return self.value
        return f"-{self.name} {shlex.quote(self.value) if self.value else ''}".rstrip()

    @property
    def subject(self) -> tuple[str, str]:
        """What the option is about: its name and the id or property in its value."""
        found = re.search(r"(?:^|,)(?:id|nodeid)=([^,]+)", self.value)
        if self.name == "set":
            return self.name, self.value.partition("=")[0]
        return self.name, found[1] if found else ""


def options_of(words: Sequence[str]) -> tuple[Option, ...]:
    """Return the options of the predicted parts of a whole command or of a prediction, in their order.

    Everything behind ``-machine`` is the VM's ``args``.
    """
    start = next((n for n, word in enumerate(words) if _KVM.fullmatch(word)), None)
    prefix = words[:start] if start is not None else _taskset(words)
    rest = words[start + 1 if start is not None else len(prefix) :]
    reading = ArgsReading.of(Args(tuple((" ", shlex.quote(word)) for word in rest)))
    found = [Option("", " ".join(prefix))] if prefix else []
    is_args = False
    for option in reading.options:
        one = Option(option.name, option.value or "")
        if is_args or one.name == "machine" or _is_predicted(one):
            found += [] if is_args and one.name in _SKIPPED_AFTER and not one.value else [one]
        is_args = is_args or one.name == "machine"
    return tuple(found)


def _taskset(words: Sequence[str]) -> Sequence[str]:
    return words[:4] if words[:1] == ("/usr/bin/taskset",) else ()


def _is_predicted(option: Option) -> bool:
    if option.name in _WHOLE:
        return True
    if option.name == "device":
        return _DEVICES.fullmatch(option.value) is not None
    if option.name == "global":
        return _GLOBALS.fullmatch(option.value) is not None
    return option.name == "object" and option.value.startswith("memory-backend-")


def command_diff(before: Sequence[Option], after: Sequence[Option]) -> str:
    """Return the options that differ, old lines with ``-`` and new ones with ``+``.

    Where an option stays and its value changes, the parts of the value that stay are folded to ``...``.
    """
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(a=list(before), b=list(after), autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            lines += _hunk(before[first:last], after[start:end])
    return "\n".join(lines)


def _hunk(old: Sequence[Option], new: Sequence[Option]) -> list[str]:
    partner = {option.subject: option for option in new}
    lines: list[str] = []
    done: set[tuple[str, str]] = set()
    for option in old:
        other = partner.get(option.subject)
        if other is None:
            lines.append(f"- {option.text}")
        elif option.subject not in done:
            done.add(option.subject)
            lines += [f"- {_folded(option, other)}", f"+ {_folded(other, option)}"]
    return [*lines, *(f"+ {option.text}" for option in new if option.subject not in done)]


def _folded(option: Option, other: Option) -> str:
    """Return the option with the parts that ``other`` has too folded away; its id stays."""
    parts, common = option.value.split(","), set(other.value.split(","))
    shown: list[str] = []
    for number, part in enumerate(parts):
        if (
            part not in common
            or part.startswith(("id=", "nodeid="))
            or (number == 0 and len(parts) > 1 and "=" not in part)
        ):
            shown.append(part)
        elif not shown or shown[-1] != _ELLIPSIS:
            shown.append(_ELLIPSIS)
    return Option(option.name, ",".join(shown)).text
