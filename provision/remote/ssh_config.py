"""The user's ssh_config, with what paramiko leaves out: Include, and the files of known hosts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import paramiko

INCLUDE_DEPTH = 8
GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"


def load(path: str | None) -> paramiko.SSHConfig:
    """Return the configuration of ``path``, or of the user and the system where it is ``None``.

    Raises OSError for an explicit file that cannot be read, :class:`paramiko.ConfigParseError` for a damaged one.
    """
    if path is not None:
        return paramiko.SSHConfig.from_text(_expanded(Path(path).expanduser(), INCLUDE_DEPTH))
    text = [
        _expanded(one, INCLUDE_DEPTH)
        for one in (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))
        if one.is_file()
    ]
    return paramiko.SSHConfig.from_text("\nHost *\n".join(text))


def known_hosts_files(options: Mapping[str, Any], explicit: str | None) -> tuple[Path, ...]:
    """Return the files that know host keys: the explicit one alone, else those of ssh_config or its defaults."""
    if explicit is not None:
        return (Path(explicit).expanduser(),)
    user = str(options.get("userknownhostsfile", USER_KNOWN_HOSTS))
    system = str(options.get("globalknownhostsfile", GLOBAL_KNOWN_HOSTS))
    names = [name for text in (user, system) for name in shlex.split(text) if name.lower() != "none"]
    return tuple(Path(name).expanduser() for name in names)


def is_on(options: Mapping[str, Any], key: str) -> bool:
    return str(options.get(key, "no")).lower() in ("yes", "true")


def _expanded(path: Path, depth: int) -> str:
    return "\n".join(_lines(path, depth)) + "\n"


def _lines(path: Path, depth: int) -> Iterator[str]:
    """Yield the lines of a file with Include replaced; after one the block it stood in goes on."""
    block = "Host *"
    for line in path.read_text("utf-8", "replace").splitlines():
        words = line.replace("=", " ", 1).split(None, 1)
        keyword = words[0].lower() if words else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include" or len(words) < 2:
            yield line
            continue
        for included in _included(words[1], path):
            if depth > 0 and included.is_file():
                yield from _lines(included, depth - 1)
                yield block


def _included(text: str, parent: Path) -> Iterator[Path]:
    """Yield the files of an Include, relative ones beside the file for the system's and below ~/.ssh else."""
    base = parent.parent if str(parent).startswith("/etc/ssh") else Path("~/.ssh").expanduser()
    for word in shlex.split(text):
        pattern = Path(word).expanduser()
        where, rest = (
            (Path(pattern.anchor), pattern.relative_to(pattern.anchor)) if pattern.is_absolute() else (base, pattern)
        )
        yield from sorted(where.glob(str(rest)))
