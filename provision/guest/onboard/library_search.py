"""Finding the driver's own user-space libraries, not a build machine's stubs nor a stale compatibility copy."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from contextlib import suppress

from provision.guest.onboard.errors import Missing

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
)
"""Debian, Red Hat, container and NixOS places, tried after the loader's own search."""
NOT_THE_DRIVER = ("/stubs/",)
COMPATIBILITY = "/compat/"
NUMBER = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")


def candidates(name: str, version: str | None) -> list[str]:
    """Return paths and names to try in order: copies of the module's own ``version`` first.

    A loader that finds a newer copy in a ``compat`` folder first would use it with an older module.
    """
    exact = [f"{folder}/{name}" for folder in FOLDERS if version and version_behind(f"{folder}/{name}") == version]
    plain = [f"{folder}/{name}" for folder in FOLDERS if os.path.exists(f"{folder}/{name}")]  # noqa: PTH110
    return list(dict.fromkeys([*exact, name, *plain]))


def version_behind(path: str) -> str | None:
    """Return the version in the name of the file that a library's link leads to."""
    match = NUMBER.search(os.path.realpath(path))
    return match[1] if match else None


def load_library(names: Sequence[str]) -> ctypes.CDLL:
    """Return the first library that loads and is no stub.  Raises Missing with what was tried."""
    tried = []
    for name in names:
        if any(part in os.path.realpath(name) for part in NOT_THE_DRIVER):
            tried.append(f"{name}: a stub for linking")
            continue
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise Missing("; ".join(tried))


def load_beside(name: str, other: str) -> None:
    """Load a library from the folder of one that is loaded already.

    A driver outside the loader's own search path looks for its parts by name alone; once loaded, they are found.
    """
    path = _mapped(other.partition(".so")[0] + ".so")
    if path is not None:
        with suppress(OSError):
            ctypes.CDLL(f"{os.path.dirname(path)}/{name}", mode=ctypes.RTLD_GLOBAL)  # noqa: PTH120


def loaded(name: str) -> dict[str, str | bool | None]:
    """Return which file this process really mapped for ``name``, by /proc/self/maps."""
    stem = name.partition(".so")[0] + ".so"
    path = _mapped(stem)
    if path is None:
        return {"path": None, "version": None, "compat": False, "stub": False}
    return {
        "path": path,
        "version": version_behind(path),
        "compat": COMPATIBILITY in path,
        "stub": any(part in path for part in NOT_THE_DRIVER),
    }


def _mapped(stem: str) -> str | None:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            for line in stream:
                path = line.rstrip("\n").partition("/")[2]
                if path.rpartition("/")[2].startswith(stem):
                    return "/" + path
    except OSError:
        return None
    return None
