"""Build the disk of the test host: Debian with its stock kernel, GRUB and systemd, and a light init beside it.

Nothing is mounted but what mmdebstrap itself does: the file system is filled by mke2fs, the boot sector written
into the image file.  The result is kept in a folder named by the hash of everything that goes into it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from rk_initrd import write_initrd

HERE = Path(__file__).resolve().parent
OVERLAY = HERE / "overlay"
SUITE = "trixie"
SECTOR = 512
FIRST_SECTOR = 2048
DISK_BYTES = 3 * 2**30
PACKAGES = (
    "linux-image-amd64,systemd-sysv,openssh-server,python3-minimal,python3,pciutils,kmod,iproute2,udev,"
    "initramfs-tools,grub-pc-bin,grub2-common,grub-common,zstd,lz4,busybox,dbus"
)
LEFT_OUT = ("doc", "man", "info", "locale", "help", "lintian")
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "systemd-tmpfiles-clean.timer",
    "systemd-networkd-wait-online.service",
    "systemd-timesyncd.service",
    "getty@tty1.service",
)
GRUB_MODULES = ("biosdisk", "part_msdos", "ext2", "normal", "linux", "serial", "terminal", "echo", "test", "search")


@dataclass(frozen=True)
class Image:
    """A disk, the kernel on it for a direct boot, and how to sign in."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.qcow2"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    @property
    def light_initrd(self) -> Path:
        return self.folder / "light.img"

    @property
    def client_key(self) -> Path:
        return self.folder / "client_key"

    @property
    def host_key(self) -> str:
        """Type and key of the host's SSH key, as known_hosts has them after the name."""
        return (self.folder / "host_key.pub").read_text("ascii").strip()


def cache_folder() -> Path:
    given = os.environ.get("PVECTL_KERNEL_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pvectl" / "realkernel"


def recipe_hash() -> str:
    """Name everything that decides what is on the disk."""
    found = hashlib.sha256()
    for path in (Path(__file__), HERE / "rk_initrd.py", *sorted(p for p in OVERLAY.rglob("*") if p.is_file())):
        found.update(f"{path.name}\0{path.stat().st_mode:o}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def image() -> Image:
    """Return the image of this recipe, built on the first call."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / recipe_hash()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="build-") as work:
                _build(Path(work))
                (Path(work) / "done").rename(folder)
    return Image(folder)


def _run(*argv: str | Path, stdin: str = "") -> None:
    result = subprocess.run([str(a) for a in argv], input=stdin, capture_output=True, text=True, check=False)
    if result.returncode:
        tail = (result.stderr or result.stdout).strip()[-3000:]
        raise RuntimeError(f"{argv[0]} ended with {result.returncode}: {tail}")


def _build(work: Path) -> None:
    done, root = work / "done", work / "root"
    done.mkdir()
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test client", "-f", done / "client_key")
    _bootstrap(root)
    _settle(root, done)
    _disk(work, root, done / "disk.qcow2")


def _bootstrap(root: Path) -> None:
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    _run(
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=directory",
        "--dpkgopt=force-confold",
        *leave_out,
        "--dpkgopt=path-exclude=/lib/firmware/*",
        "--dpkgopt=path-exclude=/usr/lib/firmware/*",
        f"--include={PACKAGES}",
        f"--essential-hook=sync-in '{OVERLAY}' /",
        SUITE,
        root,
        _mirror(),
    )


def _mirror() -> str:
    """The machine's own source of Debian packages."""
    given = os.environ.get("PVECTL_KERNEL_MIRROR")
    if given:
        return given
    answer = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in answer.stdout.splitlines():
        origin, _, rest = line.partition(" ")
        uri = rest.rpartition(" ")[2].rstrip("/")
        if origin == "Debian" and not uri.endswith("security"):
            return uri
    raise RuntimeError("no Debian mirror among the machine's apt sources: set PVECTL_KERNEL_MIRROR")


def _settle(root: Path, done: Path) -> None:
    """What makes one host of the packages: name, keys, units, file systems, boot files."""
    _own(root)
    _write(root / "etc/hostname", "testhost\n")
    _write(root / "etc/hosts", "127.0.0.1 localhost\n10.0.2.15 testhost\n")
    _write(root / "etc/machine-id", uuid.uuid4().hex + "\n")
    _write(root / "etc/fstab", "/dev/vda1 / ext4 rw,noatime 0 1\n")
    ssh = root / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(done / "client_key.pub", ssh / "authorized_keys")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test host", "-f", root / "etc/ssh/ssh_host_ed25519_key")
    public = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text("ascii").split()
    _write(done / "host_key.pub", " ".join(public[:2]) + "\n")
    _run("chroot", root, "systemctl", "enable", "systemd-networkd", "ssh")
    _run("chroot", root, "systemctl", "mask", *MASKED)
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(next((root / "boot").glob(f"{name}-*")), done / name)
    write_initrd(root, done / "light.img")
    _grub(root, done)


def _own(root: Path) -> None:
    """What came from the checkout belongs to root, whoever owns the checkout."""
    for source in (OVERLAY, *OVERLAY.rglob("*")):
        path = root / source.relative_to(OVERLAY)
        os.chown(path, 0, 0)
        path.chmod(0o755 if source.is_dir() or source.stat().st_mode & 0o100 else 0o644)


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


def _grub(root: Path, done: Path) -> None:
    """GRUB's own files, and a first menu that the host's update-grub replaces."""
    release = next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
    target = root / "boot/grub/i386-pc"
    shutil.copytree(root / "usr/lib/grub/i386-pc", target, ignore=shutil.ignore_patterns("*.image", "*.h", "*.exec"))
    _write(
        root / "boot/grub/grub.cfg",
        f"linux /boot/vmlinuz-{release} root=/dev/vda1 ro console=ttyS0,115200 quiet loglevel=4\n"
        f"initrd /boot/initrd.img-{release}\nboot\n",
    )
    prefix = "(hd0,msdos1)/boot/grub"
    _run("chroot", root, "grub-mkimage", "-O", "i386-pc", "-o", "/tmp/core.img", "-p", prefix, *GRUB_MODULES)
    shutil.move(root / "tmp/core.img", done / "core.img")


def _disk(work: Path, root: Path, target: Path) -> None:
    raw = work / "disk.raw"
    with raw.open("wb") as file:
        file.truncate(DISK_BYTES)
    _run("sfdisk", "-q", raw, stdin=f"label: dos\nstart={FIRST_SECTOR}, type=83, bootable\n")
    boot, core = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes(), (work / "done/core.img").read_bytes()
    if len(core) > (FIRST_SECTOR - 1) * SECTOR:
        raise RuntimeError(f"GRUB's core image has {len(core)} bytes and does not fit in front of the partition")
    with raw.open("r+b") as file:
        file.write(boot[:440])
        file.seek(SECTOR)
        file.write(core)
    offset = FIRST_SECTOR * SECTOR
    blocks = (DISK_BYTES - offset) // 4096
    options = ("-q", "-t", "ext4", "-b", "4096", "-m", "0", "-O", "^has_journal", "-E", f"offset={offset}")
    _run("mke2fs", *options, "-d", root, raw, str(blocks))
    _run("qemu-img", "convert", "-O", "qcow2", raw, target)


if __name__ == "__main__":
    print(image().folder)
