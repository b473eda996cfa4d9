"""The host's own configuration that decides which driver binds what: modprobe.d, modules-load, udev rules.

Read from the lab's root folder with readers of its own, so that a mistake in the product's editors shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from provision.lab import breakage, initrd
from provision.lab.layout import Placed

_TERM = re.compile(r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?')

Term = tuple[str, str, str, str]
"""Key, attribute, operator, value."""


@dataclass(frozen=True)
class HostConfig:
    blacklist: frozenset[str]
    """Modules that no alias may load, with underscores."""
    loads: frozenset[str]
    """Modules that are loaded by name at boot."""
    vfio_ids: frozenset[str]
    """``vvvv:dddd`` of ``options vfio-pci ids=``."""
    before_vfio: frozenset[str] = frozenset()
    """Modules with ``softdep MODULE pre: vfio-pci``: loading one loads vfio-pci first."""
    rules: tuple[tuple[Term, ...], ...] = ()
    vfio_stays_awake: bool = False
    """``options vfio-pci disable_idle_d3=1``."""
    keeps_d3cold: bool = False
    """What udev writes to ``d3cold_allowed`` has no effect: a fault."""

    def override(self, placed: Placed) -> str | None:
        """Return the ``driver_override`` that the last fitting udev rule sets."""
        return self._attribute(placed, "driver_override")

    def d3cold_allowed(self, placed: Placed) -> bool:
        return self.keeps_d3cold or self._attribute(placed, "d3cold_allowed") != "0"

    def _attribute(self, placed: Placed, name: str) -> str | None:
        """Return what the last fitting udev rule writes to an attribute."""
        found: str | None = None
        for rule in self.rules:
            sets = [v for key, attribute, op, v in rule if (key, attribute) == ("ATTR", name) and op == "="]
            if sets and all(_fits(term, placed) for term in rule):
                found = sets[-1] or None
        return found


def read_host_config(root: Path, image: Path) -> HostConfig:
    """Read the configuration below ``root``; files that are absent say nothing.

    ``image`` is the initial RAM disk: drivers bind while it runs, by its copy of ``/etc/modprobe.d``.
    """
    options = list(_modprobe(root, image))
    blacklist: set[str] = set()
    ids: set[str] = set()
    softdeps: set[str] = set()
    for words in options:
        _take(words, blacklist, ids, softdeps)
    loads = {*_module_names(root), *(_plain(line.split()[0]) for line in _lines_of(initrd.modules(image)))}
    rules = tuple(_rules(root))
    ignored = breakage.ignored(root)
    loads |= {name for rule in rules for name in _loaded_by(rule)}
    return HostConfig(
        frozenset(blacklist),
        frozenset(loads),
        frozenset(ids),
        frozenset(softdeps),
        rules,
        vfio_stays_awake="idle-d3-ignored" not in ignored and _keeps_awake(options),
        keeps_d3cold="d3cold-ignored" in ignored,
    )


def _keeps_awake(options: list[list[str]]) -> bool:
    """Whether the last ``disable_idle_d3`` for vfio-pci says yes."""
    values = [
        word.partition("=")[2]
        for words in options
        if words[0] == "options" and _plain(words[1]) == "vfio_pci"
        for word in words[2:]
        if word.partition("=")[0] == "disable_idle_d3"
    ]
    return values[-1:] != [] and values[-1] in ("", "1", "y", "Y", "on")


def _take(words: list[str], blacklist: set[str], ids: set[str], softdeps: set[str]) -> None:
    """Take one line of modprobe.d."""
    command, module, rest = words[0], _plain(words[1]), words[2:]
    if command == "blacklist" or (command == "install" and rest[:1] in (["/bin/false"], ["/bin/true"])):
        blacklist.add(module)
    elif command == "options" and module == "vfio_pci":
        ids |= {i.lower() for word in rest if word.startswith("ids=") for i in word[4:].split(",")}
    elif command == "softdep" and "vfio_pci" in {_plain(word) for word in rest}:
        softdeps.add(module)


def _plain(module: str) -> str:
    return module.replace("-", "_")


def _lines(path: Path) -> Iterator[str]:
    yield from _lines_of(path.read_text(encoding="utf-8", errors="replace"))


def _lines_of(content: str) -> Iterator[str]:
    for line in content.replace("\\\n", " ").splitlines():
        text = line.strip()
        if text and not text.startswith(("#", ";")):
            yield text


def _by_name(root: Path, folders: tuple[str, ...], pattern: str) -> Iterator[Path]:
    """Yield files of several folders by name; of two with one name the first folder's counts."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in (root / folder).glob(pattern):
            found.setdefault(path.name, path)
    for name in sorted(found):
        if found[name].is_file():
            yield found[name]


def _modprobe(root: Path, image: Path) -> Iterator[list[str]]:
    """Yield the words of each line; of two files with one name that in the image counts."""
    texts = initrd.settings(image)
    for path in _by_name(root, ("run/modprobe.d", "usr/lib/modprobe.d"), "*.conf"):
        texts.setdefault(path.name, path.read_text(encoding="utf-8", errors="replace"))
    for name in sorted(texts):
        for line in _lines_of(texts[name]) if name.endswith(".conf") else ():
            words = line.split()
            if len(words) > 1:
                yield words


def _module_names(root: Path) -> Iterator[str]:
    files = [root / "etc/modules"]
    files += _by_name(root, ("etc/modules-load.d", "run/modules-load.d", "usr/lib/modules-load.d"), "*.conf")
    for path in files:
        if path.is_file():
            for line in _lines(path):
                yield _plain(line.split()[0])


def _rules(root: Path) -> Iterator[tuple[Term, ...]]:
    for path in _by_name(root, ("etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d"), "*.rules"):
        for line in _lines(path):
            terms = tuple((m[1], m[2] or "", m[3], m[4]) for m in _TERM.finditer(line))
            if terms and not _TERM.sub("", line).strip():
                yield terms


def _loaded_by(rule: tuple[Term, ...]) -> Iterator[str]:
    """Modules that a rule loads: ``RUN{builtin}+="kmod load vfio-pci"`` or by calling modprobe."""
    for key, attribute, _, value in rule:
        words = value.split()
        if key != "RUN" or not words:
            continue
        if attribute == "builtin" and words[:2] == ["kmod", "load"]:
            yield from (_plain(word) for word in words[2:])
        elif words[0].rpartition("/")[2] == "modprobe":
            yield from (_plain(word) for word in words[1:] if not word.startswith("-"))


def _fits(term: Term, placed: Placed) -> bool:
    key, attribute, op, pattern = term
    if op not in ("==", "!="):
        return True
    value = _fact(key, attribute, placed)
    if value is None:
        return False
    return any(fnmatchcase(value, one) for one in pattern.split("|")) == (op == "==")


def _fact(key: str, attribute: str, placed: Placed) -> str | None:
    part = placed.part
    vendor, device = part.subsystem or (0, 0)
    facts = {
        ("ACTION", ""): "add",
        ("SUBSYSTEM", ""): "pci",
        ("KERNEL", ""): str(placed.bdf),
        ("ATTR", "vendor"): f"0x{part.ids[0]:04x}",
        ("ATTR", "device"): f"0x{part.ids[1]:04x}",
        ("ATTR", "subsystem_vendor"): f"0x{vendor:04x}",
        ("ATTR", "subsystem_device"): f"0x{device:04x}",
        ("ATTR", "class"): f"0x{part.class_code:06x}",
        ("ATTR", "revision"): f"0x{part.revision:02x}",
    }
    return facts.get((key, attribute))
