"""GRUB on a lab host: what its defaults say, the grub.cfg that update-grub makes of them, and what boots.

A small evaluator of its own, so that a mistake in the product's editor shows as one on the lab.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_KERNEL = re.compile(r"vmlinuz-(.+)")
_PLAIN_END = re.compile(r"[ \t\n;#'\"`\\]|\Z")
_DEFAULT = re.compile(r'^\s*set default="([^"]*)"', re.MULTILINE)
_GRUB_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")

GRUB_CFG = "boot/grub/grub.cfg"
CUSTOM_CFG = "boot/grub/custom.cfg"


class GrubSyntaxError(Exception):
    """What the shell would say of a file; the text names file and line."""


def defaults(root: Path) -> dict[str, str]:
    """Return the variables of /etc/default/grub and its snippets.  Raises :class:`GrubSyntaxError`."""
    values: dict[str, str] = {}
    snippets = sorted((root / "etc/default/grub.d").glob("*.cfg"))
    for path in (root / "etc/default/grub", *snippets):
        if path.is_file():
            _source(path.read_text(encoding="utf-8"), values, f"/{path.relative_to(root)}")
    return values


def _source(text: str, values: dict[str, str], name: str) -> None:
    position = 0
    while position < len(text):
        if text[position] in " \t\n;":
            position += 1
            continue
        match = _ASSIGNMENT.match(text, position)
        if match is None:
            position = (text.find("\n", position) + 1) or len(text)
            continue
        values[match[1]], position = _word(text, match.end(), values, name)


def _word(text: str, position: int, values: Mapping[str, str], name: str) -> tuple[str, int]:
    """Read one word of a shell from ``position``; return its value and where it ends."""
    value = ""
    while position < len(text) and text[position] not in " \t\n;#":
        char = text[position]
        if char in "'\"`":
            end = _closing(text, position, name)
            value += _quoted(char, text[position + 1 : end], values)
            position = end + 1
        elif char == "\\":
            value, position = value + text[position + 1 : position + 2], position + 2
        else:
            stop = _end_of_plain(text, position)
            value += _expand(text[position:stop], values)
            position = stop
    return value, position


def _end_of_plain(text: str, position: int) -> int:
    match = _PLAIN_END.search(text, position + 1)
    return match.start() if match else len(text)


def _closing(text: str, start: int, name: str) -> int:
    """Return the place of the quote that closes the one at ``start``."""
    quote, position = text[start], start + 1
    while position < len(text) and text[position] != quote:
        position += 2 if text[position] == "\\" and quote != "'" else 1
    if position >= len(text):
        line = text.count("\n", 0, start) + 1
        raise GrubSyntaxError(f"{name}: {line}: Syntax error: Unterminated quoted string")
    return position


def _quoted(quote: str, inner: str, values: Mapping[str, str]) -> str:
    """Single quotes keep all, double quotes expand; what a command would print is left out."""
    if quote == "'":
        return inner
    return _double(inner, values) if quote == '"' else ""


def _double(inner: str, values: Mapping[str, str]) -> str:
    """Text between double quotes: variables, and escapes of the four special characters."""
    value = ""
    for piece in re.split(r"(\\.)", inner.replace("\\\n", "")):
        if len(piece) == 2 and piece[0] == "\\":
            value += piece[1] if piece[1] in '$`"\\' else piece
        else:
            value += _expand(piece, values)
    return value


def _expand(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], ""), text)


def kernels(root: Path) -> list[str]:
    """Return the installed kernel releases, newest first."""
    names = [match[1] for path in (root / "boot").glob("vmlinuz-*") if (match := _KERNEL.fullmatch(path.name))]
    return sorted(names, key=_version, reverse=True)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))


def generate(root: Path, root_device: str) -> str:
    """Return the grub.cfg that update-grub would write.  Raises :class:`GrubSyntaxError`.

    ``root_device`` is what grub-probe finds, ``/dev/mapper/pve-root``.
    """
    values = defaults(root)
    base = values.get("GRUB_CMDLINE_LINUX", "")
    normal = f"{base} {values.get('GRUB_CMDLINE_LINUX_DEFAULT', '')}"
    title = f"{values.get('GRUB_DISTRIBUTOR') or 'Proxmox VE'} GNU/Linux"
    releases = kernels(root)
    top = [_entry(title, releases[0], root_device, normal, "")] if releases else []
    inner: list[str] = []
    for release in releases:
        named = f"{title}, with Linux {release}"
        inner.append(_entry(named, release, root_device, normal, "\t"))
        if values.get("GRUB_DISABLE_RECOVERY", "") != "true":
            inner.append(_entry(f"{named} (recovery mode)", release, root_device, f"single {base}", "\t"))
    head = "# made by update-grub from /etc/grub.d and /etc/default/grub; do not edit\n"
    default = values.get("GRUB_DEFAULT") or "0"
    head += _HEAD.replace("@DEFAULT@", "${saved_entry}" if default == "saved" else default)
    head += f"set timeout={values.get('GRUB_TIMEOUT', '5')}\n"
    return f"{head}{''.join(top)}submenu 'Advanced options for {title}' {{\n{''.join(inner)}}}\n{_TAIL}"


_HEAD = """\
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
  set next_entry=
  save_env next_entry
  set boot_once=true
else
  set default="@DEFAULT@"
fi
"""
_TAIL = """\
if [ -f ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"""


def _entry(title: str, release: str, root_device: str, options: str, indent: str) -> str:
    lines = (
        f"menuentry '{title}' --class proxmox --class gnu-linux --class os {{",
        "\tload_video",
        "\tinsmod gzio",
        f"\techo\t'Loading Linux {release} ...'",
        f"\tlinux\t/boot/vmlinuz-{release} root={root_device} ro {options}",
        "\techo\t'Loading initial ramdisk ...'",
        f"\tinitrd\t/boot/initrd.img-{release}",
        "}",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


@dataclass(frozen=True)
class Entry:
    names: tuple[str, ...]
    """Its title, its ``--id``, and for the first the number that stands for it."""
    release: str
    cmdline: str


def entries(grub_cfg: str) -> list[Entry]:
    """Return the entries of a configuration, those of submenus in their place."""
    found: list[Entry] = []
    names: tuple[str, ...] = ()
    for line in grub_cfg.splitlines():
        words = [word.strip("'\"") for word in _GRUB_WORD.findall(line)]
        if words[:1] == ["menuentry"]:
            after = words[words.index("--id") + 1 :] if "--id" in words else []
            names = (words[1], *after[:1], *(["0"] if not found else []))
        elif len(words) > 1 and words[0] == "linux":
            cmdline = " ".join([f"BOOT_IMAGE={words[1]}", *_GRUB_WORD.findall(line)[2:]])
            found.append(Entry(names, words[1].rpartition("vmlinuz-")[2], cmdline))
    return found


def booted_cmdline(
    grub_cfg: str, custom: str = "", environment: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Return kernel release and /proc/cmdline of what GRUB boots, ``None`` where there is nothing to boot.

    ``custom`` is custom.cfg, ``environment`` the variables of grubenv.  An entry that is not there is the first one.
    GRUB joins the words with one blank each.
    """
    variables = environment or {}
    every = entries(grub_cfg + (custom if "custom.cfg" in grub_cfg else ""))
    wanted = variables.get("next_entry", "") if "next_entry" in grub_cfg else ""
    if not wanted:
        named = _DEFAULT.findall(grub_cfg)[-1:] or ["0"]
        wanted = variables.get("saved_entry", "0") if named == ["${saved_entry}"] else named[0]
    chosen = next((entry for entry in every if wanted in entry.names), every[0] if every else None)
    return (chosen.release, chosen.cmdline) if chosen else None
