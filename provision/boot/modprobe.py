"""``/etc/modprobe.d/*.conf`` and ``/etc/modules-load.d/*.conf``: what they say, kept byte for byte.

A line ends at a line feed that has no backslash before it; a line whose first character behind white
space is ``#`` is a comment.  Module names are the same with dashes or underscores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Command = Literal["alias", "blacklist", "install", "options", "remove", "softdep", "weakdep", "other", "none"]
_COMMANDS: frozenset[str] = frozenset({"alias", "blacklist", "install", "options", "remove", "softdep", "weakdep"})


@dataclass(frozen=True)
class ModprobeLine:
    """One logical line: ``raw`` with its end and continuations, the command and its words."""

    raw: str
    command: Command
    words: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class ModprobeFile:
    lines: tuple[ModprobeLine, ...]

    @classmethod
    def parse(cls, text: str) -> ModprobeFile:
        """Read any text; what is no known command is kept as ``other``."""
        lines = []
        number = 1
        for raw in _logical_lines(text):
            lines.append(_line(raw, number))
            number += raw.count("\n")
        return cls(tuple(lines))

    def render(self) -> str:
        return "".join(line.raw for line in self.lines)

    def of(self, command: Command, module: str | None = None) -> tuple[ModprobeLine, ...]:
        """Return the lines of a command, for one module where it is named."""
        return tuple(
            line
            for line in self.lines
            if line.command == command and (module is None or (line.words and same_module(line.words[0], module)))
        )

    def options(self, module: str) -> tuple[tuple[str, str | None], ...]:
        """Return parameter and value of each option given to ``module``, in order."""
        pairs = (word.partition("=") for line in self.of("options", module) for word in line.words[1:])
        return tuple((name, value if equals else None) for name, equals, value in pairs)

    def blacklisted(self) -> tuple[str, ...]:
        return tuple(line.words[0].replace("-", "_") for line in self.of("blacklist") if line.words)

    def softdeps(self, module: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the modules loaded before and after ``module``."""
        before: list[str] = []
        after: list[str] = []
        for line in self.of("softdep", module):
            target: list[str] | None = None
            for word in line.words[1:]:
                if word in ("pre:", "post:"):
                    target = before if word == "pre:" else after
                elif target is not None:
                    target.append(word)
        return tuple(before), tuple(after)


def same_module(one: str, other: str) -> bool:
    """Whether two names are one module to the kernel."""
    return one.replace("-", "_") == other.replace("-", "_")


def vfio_ids(files: Iterable[ModprobeFile]) -> tuple[str, ...]:
    """Return the ``vvvv:dddd`` that ``options vfio-pci ids=`` names, in order."""
    found: list[str] = []
    for file in files:
        for name, value in file.options("vfio-pci"):
            if name == "ids" and value:
                found.extend(part.lower() for part in value.split(",") if part)
    return tuple(found)


def modules_to_load(text: str) -> tuple[str, ...]:
    """Return the module names of ``/etc/modules`` or a ``modules-load.d`` file (``#`` and ``;`` begin comments)."""
    words = (line.split() for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return tuple(found[0] for found in words if found)


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    current = ""
    for physical in _split_feeds(text):
        current += physical
        if not physical.endswith("\\\n"):
            lines.append(current)
            current = ""
    return [*lines, current] if current else lines


def _split_feeds(text: str) -> list[str]:
    parts = text.split("\n")
    lines = [part + "\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _line(raw: str, number: int) -> ModprobeLine:
    body = raw.replace("\\\n", " ").strip()
    words = tuple(body.split())
    if not words or words[0].startswith("#"):
        return ModprobeLine(raw, "none", (), number)
    if words[0] in _COMMANDS:
        return ModprobeLine(raw, words[0], words[1:], number)  # type: ignore[arg-type]
    return ModprobeLine(raw, "other", words, number)
