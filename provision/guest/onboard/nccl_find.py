"""Where this guest keeps NCCL: the copy that its server loads comes first.

Versions differ in transports, variables and log text, so that a test with another copy than the
server's own says little about the server.  Nothing is loaded here: see :mod:`nccl_calls`.

Sources: proc(5), ``maps``; the layout of the wheels ``nvidia-nccl-cu12`` and ``nvidia-nccl-cu13``
(``nvidia/nccl/lib/libnccl.so.2``) and of older PyTorch wheels (``torch/lib``).
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator
from typing import Any

NAME = "libnccl.so"
PACKAGES = ("nvidia/nccl/lib/libnccl.so*", "torch/lib/libnccl.so*", "nvidia/cu13/lib/libnccl.so*")
ROOTS = (
    "/usr/lib/python3*/{}-packages",
    "/usr/local/lib/python3*/{}-packages",
    "/opt/*/lib/python3*/{}-packages",
    "/opt/*/.venv/lib/python3*/{}-packages",
    "/opt/*/*/lib/python3*/{}-packages",
    "/srv/*/.venv/lib/python3*/{}-packages",
    "/srv/*/lib/python3*/{}-packages",
    "/root/*/lib/python3*/{}-packages",
    "/root/*/*/lib/python3*/{}-packages",
    "/root/.local/lib/python3*/{}-packages",
    "/home/*/*/lib/python3*/{}-packages",
    "/home/*/*/*/lib/python3*/{}-packages",
    "/home/*/.local/lib/python3*/{}-packages",
)
CONTAINERS = (
    "/var/lib/docker/overlay2/*/diff",
    "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs",
    "/var/lib/containers/storage/overlay/*/diff",
)
IN_CONTAINER = ("/usr/local/lib/python3*/{}-packages", "/opt/*/lib/python3*/{}-packages")
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/local/nccl*/lib",
    "/opt/nccl*/lib",
    "/opt/conda/lib",
)
LOADER_CACHE = "/etc/ld.so.cache"
AT_MOST = 24


def find(root: str = "/", given: str = "") -> list[dict[str, Any]]:
    """Return the copies of NCCL in the order in which they should be tried, each file once.

    Each is ``{"path", "found", "pids"}``; ``found`` is ``given``, ``running process``,
    ``site-packages``, ``loader cache``, ``folder`` or ``container``.  ``root`` is ``/`` but in tests.
    """
    base = root.rstrip("/")
    copies: list[dict[str, Any]] = []
    seen: dict[tuple[int, int], dict[str, Any]] = {}
    for path, found, pid in _candidates(base, given):
        identity = _identity(path)
        if identity is None:
            continue
        if identity not in seen:
            seen[identity] = {"path": path[len(base) :], "found": found, "pids": []}
            copies.append(seen[identity])
        if pid and pid not in seen[identity]["pids"]:
            seen[identity]["pids"].append(pid)
    return copies[:AT_MOST]


def _identity(path: str) -> Any:
    """Device and inode of a file with content; None where it is not one."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return (about.st_dev, about.st_ino) if os.path.isfile(path) and about.st_size else None


def _candidates(base: str, given: str) -> Iterator[tuple[str, str, int]]:
    if given:
        yield base + given, "given", 0
    for path, pid in _mapped(base):
        yield path, "running process", pid
    for path in _in_packages(_site_folders(base)):
        yield path, "site-packages", 0
    for path in _cached(base + LOADER_CACHE):
        yield base + path, "loader cache", 0
    for folder in FOLDERS:
        for path in _sorted(base + folder + "/" + NAME + "*"):
            yield path, "folder", 0
    for layer in CONTAINERS:
        folders = [base + layer + each.format(kind) for each in IN_CONTAINER for kind in ("dist", "site")]
        for path in _in_packages(folders):
            yield path, "container", 0


def _mapped(base: str) -> Iterator[tuple[str, int]]:
    """Return (path, process) for each NCCL that a process has mapped; in a container by way of ``/proc/PID/root``."""
    for maps in _sorted(base + "/proc/[0-9]*/maps"):
        pid = int(maps.split("/")[-2])
        for path in sorted(set(_mapped_paths(maps))):
            inside = os.path.dirname(maps) + "/root" + path
            yield (inside if os.path.exists(inside) and not os.path.exists(base + path) else base + path), pid


def _mapped_paths(maps: str) -> Iterator[str]:
    try:
        with open(maps, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                path = line.rstrip("\n")
                at = path.find("/")
                if NAME in line and at > 0 and not path.endswith(" (deleted)"):
                    yield path[at:]
    except OSError:
        return


def _site_folders(base: str) -> list[str]:
    own = [path for path in sys.path if path.endswith("-packages")] if not base else []
    return own + [base + each.format(kind) for each in ROOTS for kind in ("site", "dist")]


def _in_packages(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for package in PACKAGES:
            yield from _sorted(folder + "/" + package)


def _cached(cache: str) -> list[str]:
    """Return the paths that the loader knows: the strings of its cache, which NUL bytes end."""
    try:
        with open(cache, "rb") as stream:
            words = stream.read(8 << 20).split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words if word.startswith(b"/") and NAME.encode() in word]


def _sorted(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))
