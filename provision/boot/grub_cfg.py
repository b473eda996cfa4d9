"""A generated grub.cfg: whether it can take an entry once, and the entry that starts a kernel.

``update-grub`` writes at its head that ``next_entry`` of GRUB's environment wins over the default, whatever
``GRUB_DEFAULT`` says, and that it is cleared before the entry boots; at its end that ``custom.cfg`` is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from provision.evidence import Maybe, Unknown

CUSTOM_FILE = "/boot/grub/custom.cfg"
ENVIRONMENT_FILE = "/boot/grub/grubenv"
_TAKES = re.compile(r"^\s*set default=[\"']?\$\{?next_entry\}?", re.MULTILINE)
_CLEARS = re.compile(r"^\s*save_env\s+next_entry\s*$", re.MULTILINE)
_READS = re.compile(r"^\s*(?:source|\.)\s+\S*custom\.cfg\s*$", re.MULTILINE)
_LINUX = ("linux", "linux16", "linuxefi")


@dataclass(frozen=True)
class KernelEntry:
    """A boot entry that starts a kernel."""

    body: tuple[str, ...]
    """Its lines without the braces, as they stand."""
    linux: int
    """Place in ``body`` of the line that names the kernel."""

    @property
    def command(self) -> tuple[str, str]:
        """Return the word ``linux`` and the kernel's path."""
        words = self.body[self.linux].split(None, 2)
        return words[0], words[1]

    @property
    def options(self) -> str:
        words = self.body[self.linux].split(None, 2)
        return words[2] if len(words) > 2 else ""

    def with_options(self, options: str) -> tuple[str, ...]:
        """Return the body with another command line, and without what would make the entry the saved default."""
        line = self.body[self.linux]
        lead = line[: len(line) - len(line.lstrip())]
        named = " ".join([*self.command, options])
        lines = (*self.body[: self.linux], f"{lead}{named}", *self.body[self.linux + 1 :])
        return tuple(text for text in lines if text.strip() != "savedefault")


def takes_next_entry(text: str) -> bool:
    """Whether this configuration boots ``next_entry`` and clears it before."""
    return bool(_TAKES.search(text) and _CLEARS.search(text))


def reads_custom(text: str) -> bool:
    return _READS.search(text) is not None


def kernel_entry(text: str, release: str) -> Maybe[KernelEntry]:
    """Return the first entry that starts kernel ``release``: the recovery entry of the same kernel comes after it."""
    for body in _bodies(text):
        for at, line in enumerate(body):
            words = line.split(None, 2)
            if len(words) > 1 and words[0] in _LINUX and words[1].rpartition("/")[2] == f"vmlinuz-{release}":
                return KernelEntry(body, at)
    return Unknown(unknown=f"no entry of grub.cfg starts the running kernel {release}", supply="run update-grub")


def _bodies(text: str) -> list[tuple[str, ...]]:
    """Return the lines of each menu entry; entries hold no braces of their own that stand alone in a line."""
    found: list[tuple[str, ...]] = []
    inside: list[str] | None = None
    for line in text.splitlines():
        if inside is None:
            inside = [] if line.split()[:1] == ["menuentry"] and line.rstrip().endswith("{") else None
        elif line.strip() == "}":
            found.append(tuple(inside))
            inside = None
        else:
            inside.append(line)
    return found


def next_entry(environment: str) -> str | None:
    """Return the entry that GRUB's environment block asks to boot once, ``None`` where it asks for none."""
    for line in environment.splitlines():
        name, _, value = line.partition("=")
        if name == "next_entry" and value:
            return value
    return None
