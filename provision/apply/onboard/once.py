"""The boot entry of a run that the boot loader takes once: put there, looked at, taken away.

GRUB reads ``/boot/grub/custom.cfg`` at boot and takes the entry that ``next_entry`` in its environment names, once.
systemd-boot reads an entry file of its own on each ESP and takes the one that the EFI variable
``LoaderEntryOneShot`` names, once.  Either way the default entry stays what it is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from provision.apply.onboard.host import LONG, Failed, Host, Json, sync_folder, sync_write, words_of

MARK = "# pvectl:"
"""How our entry's file begins; any other file of that name is somebody else's."""
CUSTOM = "/boot/grub/custom.cfg"
ENVIRONMENT = "/boot/grub/grubenv"
MOUNT_POINT = "/run/pvectl/esp"
VARIABLE = "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


class Once:
    """The one-shot entry that a plan asks for; ``terms`` is its operation ``boot.once``."""

    def __init__(self, host: Host, terms: Json) -> None:
        self.host = host
        self.content: str = terms["content"]
        self.cmdline: str = terms["cmdline"]
        self.loader: Loader = GrubOnce(host) if terms["loader"] == "grub" else SystemdBootOnce(host, terms["esps"])

    def is_running(self) -> bool:
        """Whether this boot came from the entry, or from a default that says the same."""
        return words_of(self.host.text("/proc/cmdline")) == words_of(self.cmdline)

    def observe(self) -> Json:
        """Return the state as the journal keeps it."""
        found = set(self.loader.contents())
        digest = None if found == {None} else "differs" if len(found) > 1 else found.pop()
        return {"kind": "once", "sha256": digest, "armed": self.loader.is_armed(), "cmdline": self.cmdline}

    def put(self) -> None:
        """Write the entry, then let the loader take it.  Raises Failed."""
        self.loader.write(self.content)
        self.loader.arm()
        self.host.run(("sync",), LONG)
        if not self.loader.is_armed():
            raise Failed("the boot loader does not name the entry as its next one")

    def clear(self) -> None:
        """Let the loader forget it, then remove it.  Raises Failed."""
        if self.loader.is_armed():
            self.loader.disarm()
        self.loader.remove()
        self.host.run(("sync",), LONG)


class Loader:
    """What the two boot loaders do each in their own way."""

    entry = "pvectl-once"

    def contents(self) -> list[Optional[str]]:  # noqa: UP045 - Python 3.9
        """Return the SHA-256 of the entry in each place where it is to be, ``None`` where it is not."""
        raise NotImplementedError

    def is_armed(self) -> bool:
        raise NotImplementedError

    def write(self, content: str) -> None:
        raise NotImplementedError

    def arm(self) -> None:
        raise NotImplementedError

    def disarm(self) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError


class GrubOnce(Loader):
    """``grub-reboot`` sets ``next_entry``; grub.cfg takes it and clears it before it boots."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def contents(self) -> list[Optional[str]]:  # noqa: UP045 - Python 3.9
        return [digest_of(self.host.at(CUSTOM))]

    def is_armed(self) -> bool:
        if not self.host.at(ENVIRONMENT).is_file():
            return False
        return f"next_entry={self.entry}" in self.host.run(("grub-editenv", "-", "list")).decode().splitlines()

    def write(self, content: str) -> None:
        write_ours(self.host.at(CUSTOM), CUSTOM, content)

    def arm(self) -> None:
        self.host.run(("grub-reboot", self.entry))

    def disarm(self) -> None:
        self.host.run(("grub-editenv", "-", "unset", "next_entry"))

    def remove(self) -> None:
        remove_ours(self.host.at(CUSTOM))


class SystemdBootOnce(Loader):
    """``bootctl set-oneshot`` sets the EFI variable; systemd-boot deletes it before it boots."""

    def __init__(self, host: Host, esps: list[str]) -> None:
        self.host = host
        self.esps = esps
        self.name = f"{self.entry}.conf"

    def contents(self) -> list[Optional[str]]:  # noqa: UP045 - Python 3.9
        found = []
        for uuid in self.present():
            with self.mounted(uuid) as esp:
                found.append(digest_of(self.place(esp)))
        return found or [None]

    def present(self) -> list[str]:
        """Return the ESPs whose disk is there."""
        return [uuid for uuid in self.esps if self.host.at(self.device(uuid)).exists()]

    def is_armed(self) -> bool:
        place = self.host.at(VARIABLE)
        return place.is_file() and place.read_bytes()[4:].decode("utf-16-le", "replace").rstrip("\0") == self.name

    def write(self, content: str) -> None:
        gone = [uuid for uuid in self.esps if uuid not in self.present()]
        if gone:
            raise Failed(f"ESP {', '.join(gone)} is not there")
        for uuid in self.esps:
            with self.mounted(uuid) as esp:
                require_default(esp, uuid)
                require_kernel(esp, uuid, content)
                write_ours(self.place(esp), f"{self.name} on ESP {uuid}", content)

    def arm(self) -> None:
        self.host.run(("bootctl", "set-oneshot", self.name))

    def disarm(self) -> None:
        self.host.run(("bootctl", "set-oneshot", ""))

    def remove(self) -> None:
        for uuid in self.present():
            with self.mounted(uuid) as esp:
                remove_ours(self.place(esp))

    def place(self, esp: Path) -> Path:
        return esp / "loader/entries" / self.name

    def device(self, uuid: str) -> str:
        return f"/dev/disk/by-uuid/{uuid}"

    @contextlib.contextmanager
    def mounted(self, uuid: str) -> Iterator[Path]:
        """Mount an ESP for a moment: proxmox-boot-tool leaves none mounted."""
        folder = self.host.at(MOUNT_POINT)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(Failed):
            self.host.run(("umount", MOUNT_POINT))  # what a try that was killed left behind
        self.host.run(("mount", "-t", "vfat", self.device(uuid), MOUNT_POINT))
        try:
            yield folder
        finally:
            self.host.run(("umount", MOUNT_POINT))


def digest_of(place: Path) -> Optional[str]:  # noqa: UP045 - Python 3.9
    """Return the SHA-256 of our entry, ``None`` where there is none, or only a file of somebody else."""
    return hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() and is_ours(place) else None


def is_ours(place: Path) -> bool:
    return place.read_bytes().startswith(MARK.encode())


def write_ours(place: Path, name: str, content: str) -> None:
    if place.is_file() and not is_ours(place):
        raise Failed(f"{name} is there already and not from pvectl")
    draft = place.with_name(f".{place.name}.pvectl")
    sync_write(draft, content.encode(), None)
    draft.rename(place)
    sync_folder(place.parent)


def remove_ours(place: Path) -> None:
    if place.is_file() and is_ours(place):
        place.unlink()
        sync_folder(place.parent)


def require_default(esp: Path, uuid: str) -> None:
    """Without a default of its own systemd-boot takes the entry that sorts first, which may be ours."""
    lines = (esp / "loader/loader.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    if not any(line.split()[:1] == ["default"] and line.split()[1:2] > ["proxmox-"] for line in lines):
        raise Failed(f"loader.conf on ESP {uuid} names no entry of proxmox-boot-tool as default")


def require_kernel(esp: Path, uuid: str, content: str) -> None:
    for line in content.splitlines():
        words = line.split()
        if words[:1] in (["linux"], ["initrd"]) and not (esp / words[1].lstrip("/")).is_file():
            raise Failed(f"{words[1]} is not on ESP {uuid}")
