"""A small early user space for the light boot: busybox and the few modules that the disk and the network need."""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterator
from pathlib import Path

MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "virtio_net")
INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in {modules}; do insmod "/modules/$module"; done
until [ -b /dev/vda1 ]; do sleep 0.1; done
mount -o ro /dev/vda1 /root
mount -o move /dev /root/dev
mount -o move /proc /root/proc
mount -o move /sys /root/sys
exec switch_root /root /usr/local/sbin/light-init
"""
FOLDERS = ("bin", "dev", "lib64", "lib", "modules", "proc", "root", "sys")
LIBRARIES = ("libc.so.6", "libresolv.so.2")
LOADER = "lib64/ld-linux-x86-64.so.2"


def write_initrd(root: Path, target: Path) -> None:
    """Write the archive for the kernel in ``root`` (an unpacked system with busybox) to ``target``."""
    modules = _module_files(root)
    files: dict[str, tuple[int, bytes]] = dict.fromkeys(FOLDERS, (stat.S_IFDIR | 0o755, b""))
    files["bin/busybox"] = (stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes())
    for name in ("sh", "mount", "insmod", "sleep", "switch_root"):
        files[f"bin/{name}"] = (stat.S_IFLNK | 0o777, b"busybox")
    files[LOADER] = (stat.S_IFREG | 0o755, (root / "usr" / LOADER).read_bytes())
    for name in LIBRARIES:
        files[f"lib/{name}"] = (stat.S_IFREG | 0o755, (root / "usr/lib/x86_64-linux-gnu" / name).read_bytes())
    for path in modules:
        files[f"modules/{_plain(path)}"] = (stat.S_IFREG | 0o644, _content(path))
    text = INIT.format(modules=" ".join(_plain(path) for path in modules))
    files["init"] = (stat.S_IFREG | 0o755, text.encode())
    target.write_bytes(b"".join(_archive(files)))


def _module_files(root: Path) -> tuple[Path, ...]:
    """The modules and what they depend on, in the order in which they load."""
    folder = next((root / "usr/lib/modules").iterdir())
    needs: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text("utf-8").splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {_plain(Path(path)).removesuffix(".ko").replace("-", "_"): path for path in needs}
    built_in = (folder / "modules.builtin").read_text("utf-8")
    order: list[str] = []
    for name in MODULES:
        if f"/{name}.ko\n" in built_in:
            continue
        wanted = by_name[name]
        for path in (*reversed(needs[wanted]), wanted):
            if path not in order:
                order.append(path)
    return tuple(folder / path for path in order)


def _plain(path: Path) -> str:
    return path.name.removesuffix(".xz")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _archive(files: dict[str, tuple[int, bytes]]) -> Iterator[bytes]:
    """The ``newc`` form of cpio."""
    rows = [*sorted(files.items()), ("TRAILER!!!", (0, b""))]
    for number, (name, (mode, data)) in enumerate(rows, start=1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        yield head + bytes(-len(head) % 4)
        yield data + bytes(-len(data) % 4)
