"""EFI system partitions that proxmox-boot-tool keeps, with systemd-boot on them.

They are not mounted on a running host, so their content stands beside the root folder: ``esp/<UUID>/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provision.lab.grub import kernels

UUIDS = "etc/kernel/proxmox-boot-uuids"
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
    """Where the lab keeps the content of an ESP."""
    return root.parent / "esp" / uuid


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
        text = (
            f"title    Proxmox Virtual Environment\nversion  {release}\noptions  {options}\n"
            f"linux    /{path}/vmlinuz-{release}\ninitrd   /{path}/initrd.img-{release}\n"
        )
        entry.write_text(text, encoding="utf-8")
    for old in set((folder / "loader/entries").glob("proxmox-*.conf")) - wanted:
        old.unlink()
    return said


def booted_cmdline(root: Path) -> tuple[str, str] | None:
    """Return kernel release and /proc/cmdline of the newest entry of the first ESP that has one."""
    for uuid in uuids(root):
        for release in kernels(root):
            entry = esp_folder(root, uuid) / f"loader/entries/proxmox-{release}.conf"
            if entry.is_file():
                options = _field(entry.read_text(encoding="utf-8"), "options")
                return release, f"initrd=\\EFI\\proxmox\\{release}\\initrd.img-{release} {options}"
    return None


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return value.strip()
    return ""
