"""EFI system partitions that proxmox-boot-tool keeps, with systemd-boot on them.

They are not mounted on a running host, so their content stands beside the root folder: ``esp/<UUID>/``.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from provision.lab.grub import kernels

UUIDS = "etc/kernel/proxmox-boot-uuids"
VARIABLES = "sys/firmware/efi/efivars"
ONE_SHOT, SELECTED = "LoaderEntryOneShot", "LoaderEntrySelected"
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
CMDLINE = "etc/kernel/cmdline"


@dataclass(frozen=True)
class Refreshed:
    """What ``proxmox-boot-tool refresh`` answered."""

    rc: int
    stdout: str
    stderr: str = ""


def uuids(root: Path) -> tuple[str, ...]:
    """Return the ESPs that proxmox-boot-tool knows, none where it keeps none."""
    path = root / UUIDS
    return tuple(path.read_text(encoding="utf-8").split()) if path.is_file() else ()


def esp_folder(root: Path, uuid: str) -> Path:
    """Where the content of an ESP is now: beside the root folder, or where it is mounted."""
    mounted = _mounted(root, uuid)
    return Path(mounted.read_text(encoding="utf-8")) if mounted.is_file() else _home(root, uuid)


def _home(root: Path, uuid: str) -> Path:
    return root.parent / "esp" / uuid


def _mounted(root: Path, uuid: str) -> Path:
    """A note of where the ESP is mounted."""
    return root.parent / "esp" / f"{uuid}.mounted"


def mount(root: Path, uuid: str, target: Path) -> bool:
    """Put an ESP's content to ``target``, an empty folder.  Returns whether there is such an ESP."""
    if not _home(root, uuid).is_dir():
        return False
    _mounted(root, uuid).write_text(str(target), encoding="utf-8")
    _home(root, uuid).rename(target)
    return True


def unmount(root: Path, target: Path) -> bool:
    """Take the ESP that is mounted at ``target`` away.  Returns whether there was one."""
    for uuid in uuids(root):
        if _mounted(root, uuid).is_file() and esp_folder(root, uuid) == target:
            if target.is_dir() and not _home(root, uuid).exists():
                target.rename(_home(root, uuid))
            target.mkdir(exist_ok=True)
            _mounted(root, uuid).unlink()
            return True
    return False


def unmount_all(root: Path) -> None:
    """What a reboot does."""
    for uuid in uuids(root):
        if _mounted(root, uuid).is_file():
            unmount(root, esp_folder(root, uuid))


def variable(root: Path, name: str) -> str:
    """Return one of systemd-boot's EFI variables, empty where it is not set."""
    path = root / VARIABLES / f"{name}-{_VENDOR}"
    return path.read_bytes()[4:].decode("utf-16-le").rstrip("\0") if path.is_file() else ""


def set_variable(root: Path, name: str, value: str) -> None:
    """Set one of systemd-boot's EFI variables; an empty value deletes it."""
    path = root / VARIABLES / f"{name}-{_VENDOR}"
    path.unlink(missing_ok=True)
    if value:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x07\0\0\0" + f"{value}\0".encode("utf-16-le"))


def make(root: Path, uuid: str) -> None:
    """Set up an ESP with systemd-boot and no entry yet, as the installer does."""
    folder = esp_folder(root, uuid)
    (folder / "loader/entries").mkdir(parents=True, exist_ok=True)
    (folder / "EFI/systemd").mkdir(parents=True, exist_ok=True)
    (folder / "loader/loader.conf").write_text("timeout 3\ndefault proxmox-*\n", encoding="utf-8")
    (folder / "EFI/systemd/systemd-bootx64.efi").write_bytes(b"MZ")


def refresh(root: Path) -> Refreshed:
    """Write the loader entries anew: what ``proxmox-boot-tool refresh`` does for systemd-boot.

    Without ``root=`` in the first line of /etc/kernel/cmdline it stops with status 1.  An ESP that is not there is
    skipped with a warning, and the status is 0.
    """
    out = ["Running hook script 'proxmox-auto-removal'..", "Running hook script 'zz-proxmox-boot'.."]
    out.append("Re-executing '/etc/kernel/postinst.d/zz-proxmox-boot' in new private mount namespace..")
    options = _first_line(root)
    if "root=" not in options:
        return Refreshed(1, _lines(out), "No root= parameter in /etc/kernel/cmdline found!\n")
    warnings: list[str] = []
    for uuid in uuids(root):
        folder = esp_folder(root, uuid)
        if not folder.is_dir():
            warnings.append(f"WARN: /dev/disk/by-uuid/{uuid} does not exist - clean '/{UUIDS}'! - skipping")
            continue
        out.append(f"Copying and configuring kernels on /dev/disk/by-uuid/{uuid}")
        out += _write_entries(root, folder, options)
    return Refreshed(0, _lines(out), _lines(warnings))


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _first_line(root: Path) -> str:
    path = root / CMDLINE
    if path.is_file():
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    running = (root / "proc/cmdline").read_text(encoding="utf-8").strip()
    return " ".join(word for word in running.split(" ") if not word.startswith("initrd="))


def _write_entries(root: Path, folder: Path, options: str) -> list[str]:
    """Write an entry for each kernel, drop those of kernels that are gone; return what the tool says."""
    said: list[str] = []
    wanted: set[Path] = set()
    for release in kernels(root):
        said.append(f"\tCopying kernel and creating boot-entry for {release}")
        entry = folder / f"loader/entries/proxmox-{release}.conf"
        wanted.add(entry)
        path = f"EFI/proxmox/{release}"
        (folder / path).mkdir(parents=True, exist_ok=True)
        for name in (f"vmlinuz-{release}", f"initrd.img-{release}"):
            if (root / "boot" / name).is_file():
                shutil.copyfile(root / "boot" / name, folder / path / name)
        text = (
            f"title    Proxmox Virtual Environment\nversion  {release}\noptions  {options}\n"
            f"linux    /{path}/vmlinuz-{release}\ninitrd   /{path}/initrd.img-{release}\n"
        )
        entry.write_text(text, encoding="utf-8")
    for old in set((folder / "loader/entries").glob("proxmox-*.conf")) - wanted:
        old.unlink()
    return said


@dataclass(frozen=True)
class Booted:
    """The entry that systemd-boot starts."""

    name: str
    release: str
    cmdline: str
    initrd: Path


def booted(root: Path) -> Booted | None:
    """Return what systemd-boot starts next: the entry that it is to take once, else that of the newest kernel."""
    names = [f"proxmox-{release}.conf" for release in kernels(root)]
    wanted = variable(root, ONE_SHOT)
    for name in (*([wanted] if wanted else []), *names):
        for uuid in uuids(root):
            entry = esp_folder(root, uuid) / "loader/entries" / name
            if entry.is_file():
                return _booted(name, entry.read_text(encoding="utf-8"), esp_folder(root, uuid))
    return None


def _booted(name: str, text: str, folder: Path) -> Booted:
    initrd = _field(text, "initrd")
    release = _field(text, "linux").rpartition("vmlinuz-")[2]
    cmdline = f"initrd={initrd.replace('/', chr(92))} {_field(text, 'options')}"
    return Booted(name, release, cmdline, folder / initrd.lstrip("/"))


def booted_cmdline(root: Path) -> tuple[str, str] | None:
    """Return kernel release and /proc/cmdline of the next boot."""
    entry = booted(root)
    return (entry.release, entry.cmdline) if entry is not None else None


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return value.strip()
    return ""
