"""The boot entry that pvectl lets a boot loader take once: its names, and whether this boot came from it."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline

ENTRY = "pvectl-once"
"""Name of the entry; systemd-boot's has ``.conf`` behind it."""
MARK = "# pvectl:"
"""How its file begins."""
SELECTED = "/sys/firmware/efi/efivars/LoaderEntrySelected-*"
"""EFI variable in which systemd-boot says what it started: four bytes of attributes, then UTF-16."""
_BY_LOADER = ("BOOT_IMAGE", "initrd")


def is_selected(variable: bytes) -> bool:
    """Whether systemd-boot started our entry."""
    return variable[4:].decode("utf-16-le", "replace").rstrip("\0") == f"{ENTRY}.conf"


def is_from_custom(custom: str, running: str) -> bool:
    """Whether GRUB's custom.cfg holds our entry and the running kernel has its command line."""
    if not custom.startswith(MARK):
        return False
    lines = [line.split(None, 2) for line in custom.splitlines()]
    return any(words[:1] == ["linux"] and _words("".join(words[2:])) == _words(running) for words in lines)


def _words(cmdline: str) -> list[str]:
    return [token.raw for token in Cmdline.parse(cmdline).tokens if token.key not in _BY_LOADER]
