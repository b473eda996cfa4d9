"""Whether the running system is the one on the disk, or a rescue, live or network system beside it."""

from __future__ import annotations

from dataclasses import dataclass

from provision.boot.cmdline import Cmdline
from provision.boot.efi_entries import EfiBoot
from provision.evidence import Maybe, Unknown

_LIVE = {
    "boot": ("live", "casper", "nfs"),
    "root": ("/dev/nfs", "/dev/ram0", "live:", "tmpfs"),
}
_LIVE_NAMES = frozenset(
    {"live_media", "live_config", "rd.live.image", "archisobasedir", "archiso_http_srv", "netboot", "nfsroot", "fetch"}
)
_VOLATILE = frozenset({"overlay", "aufs", "tmpfs", "ramfs", "rootfs", "squashfs", "nfs", "nfs4", "9p"})
"""Types of a root file system that no installed Proxmox host has."""


@dataclass(frozen=True)
class Running:
    """``is_installed`` is false for a rescue system; ``signs`` say what tells."""

    is_installed: Maybe[bool]
    signs: tuple[str, ...]


def judge_running(cmdline: Maybe[str | None], root_type: Maybe[str | None], efi: EfiBoot | None) -> Running:
    """Return whether the system on the disk runs.

    ``root_type`` is the file system type of ``/``.  A network entry of the firmware alone proves nothing: many a
    network loader goes on to the disk.
    """
    signs = [*_live_words(cmdline), *_root(root_type)]
    if signs:
        return Running(is_installed=False, signs=tuple(signs))
    entry = efi.running if efi is not None else None
    network = (
        f"the firmware started Boot{entry.number} ({entry.label}), a network entry (PXE)"
        if entry is not None and entry.is_network
        else None
    )
    if isinstance(root_type, str) and isinstance(cmdline, str):
        return Running(is_installed=True, signs=(network,) if network else ())
    if network is not None:
        unknown = Unknown(
            unknown=f"{network}: this may be a rescue system", supply="run the same from the installed system, as root"
        )
        return Running(is_installed=unknown, signs=(network,))
    missing = next((fact for fact in (cmdline, root_type) if isinstance(fact, Unknown)), None)
    return Running(is_installed=missing or Unknown(unknown="the root file system is not known"), signs=())


def _live_words(cmdline: Maybe[str | None]) -> list[str]:
    if not isinstance(cmdline, str):
        return []
    found = []
    for token in Cmdline.parse(cmdline).kernel:
        starts = _LIVE.get(token.key, ())
        if token.key in _LIVE_NAMES or any((token.value or "").startswith(start) for start in starts):
            found.append(f"/proc/cmdline has {token.raw}: a live or network system")
    return found


def _root(root_type: Maybe[str | None]) -> list[str]:
    if isinstance(root_type, str) and root_type in _VOLATILE:
        return [f"/ is on {root_type}: no installed system has that"]
    return []
