"""Commands that somebody typed or wants typed: ``pvesh create /cluster/mapping/pci ...``, ``qm set --hostpci0 ...``."""

from __future__ import annotations

import re
import shlex

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, Skipped
from provision.readers.signals import certainty, signal

_PROMPT = r"\s*(?:[^#$\s]{1,60}[#$]\s+|[#$]\s+)?(?:sudo\s+)?"
_SIGNALS = (
    signal(0.95, rf"{_PROMPT}pvesh (?:create|set|delete) /cluster/mapping/pci\b"),
    signal(0.9, rf"{_PROMPT}qm (?:set|create) \S+ .{{0,300}}--?hostpci\d"),
    signal(0.9, rf"{_PROMPT}qm set \S+ (?:\\$|--?(?:args|machine|bios|cpu|balloon|memory)\b)"),
)
_START = re.compile(rf"{_PROMPT}(?P<command>(?:pvesh (?:create|set|delete) /|qm (?:set|create) \S).*)")
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?$", re.DOTALL)
_LONGEST = 65_536


class PveCommand(Frozen):
    """One command, its continuation lines joined."""

    line: int
    program: str
    """``pvesh`` or ``qm``."""
    verb: str
    """``create``, ``set``, ``delete``."""
    target: str
    """``/cluster/mapping/pci/NAME`` or the VM."""
    options: tuple[tuple[str, Mention], ...]
    """Name without dashes and value, each as often as it was given."""

    def values(self, name: str) -> tuple[Mention, ...]:
        return tuple(value for key, value in self.options if key == name)

    @property
    def mapping(self) -> str | None:
        """The PCI mapping that a ``pvesh`` command is about."""
        if not self.target.startswith("/cluster/mapping/pci"):
            return None
        named = self.target.removeprefix("/cluster/mapping/pci").strip("/")
        given = self.values("id")
        return named or (given[0].text if given else None)


class PveCommands(Frozen):
    commands: tuple[PveCommand, ...]
    skipped: tuple[Skipped, ...]


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[PveCommands]:
    """Return the commands; Unknown where there is none."""
    found: list[PveCommand] = []
    run: list[Mention] = []
    for number, line in enumerate(unquoted(text), 1):
        match = None if run else _START.match(line)
        if match is None and not run:
            continue
        run.append(Mention(line=number, text=(match["command"] if match else line)[:_LONGEST]))
        if not line.rstrip().endswith("\\"):
            found += _command(run)
            run = []
    found += _command(run)
    if not found:
        return Unknown(unknown="it holds no command of pvesh or qm that changes something")
    return PveCommands(commands=tuple(found), skipped=())


def _command(lines: list[Mention]) -> list[PveCommand]:
    words = [Mention(line=line.line, text=word) for line in lines for word in _words(line.text)]
    if len(words) < 3:
        return []
    options: list[tuple[str, Mention]] = []
    for word in words[3:]:
        match = _OPTION.match(word.text)
        if match is not None:
            options.append((match[1], Mention(line=word.line, text=match[2] or "")))
        elif options and not options[-1][1].text:
            options[-1] = (options[-1][0], word)
    return [
        PveCommand(
            line=words[0].line,
            program=words[0].text,
            verb=words[1].text,
            target=words[2].text,
            options=tuple(options),
        )
    ]


def _words(line: str) -> list[str]:
    """Split as a shell does, comments left out; a cut quote leaves the words between blanks."""
    text = line.rstrip().removesuffix("\\")
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()
