"""Walls around the agent's child process: an audit hook, and Landlock where the kernel has it.

The agent already resolves every path inside the lab's root and has no way to run a program of the
machine.  These layers stand behind it: a bug in the agent must not touch the machine either.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System call numbers, the same on every architecture (asm-generic/unistd.h)."""
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

READ = 0b0_0000_0000_1100
"""READ_FILE and READ_DIR (linux/landlock.h)."""
ALL_BY_VERSION = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
CONNECT_AND_BIND = 0b11
SCOPE_ALL = 0b11

REFUSED_EVENTS = frozenset(
    {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.kill", "os.killpg"}
    | {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "os.putenv", "os.unsetenv", "pty.spawn"}
    | {"shutil.rmtree", "ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function"}
)
PATH_EVENTS = frozenset(
    {"open", "os.remove", "os.rename", "os.chmod", "os.chown", "os.listdir", "os.scandir", "os.link", "os.symlink"}
    | {"os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.getxattr", "os.chdir"}
    | {"os.mkfifo", "os.mknod", "os.chflags", "os.lchown", "os.listxattr", "os.chroot", "glob.glob"}
)


class LeftTheLab(PermissionError):
    """Code in the lab reached for the machine that the lab runs on."""


def landlock_version() -> int:
    """Return the kernel's Landlock interface version, 0 where it has none or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    found = _libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_RULESET_VERSION))
    return max(0, int(found))


def layers() -> dict[str, str]:
    """Return each layer and its state, for ``pvectl lab status``."""
    version = landlock_version()
    return {
        "no shell": "active: commands are emulated, anything else is 127",
        "audit hook": "active on the agent's process",
        "landlock": f"active, version {version}" if version else "not offered by this kernel",
    }


def enclose(root: Path) -> None:
    """Restrict this process to ``root``; reading the Python library stays possible.  There is no way back."""
    library = [Path(path).resolve() for path in _library()]
    if landlock_version():
        _landlock(root, library)
    sys.addaudithook(_hook(str(root), [str(path) for path in library]))


def _library() -> list[str]:
    names = ("stdlib", "platstdlib")
    paths = {sysconfig.get_paths()[name] for name in names} | {str(Path(__file__).resolve().parents[1])}
    paths |= {str(Path(sys.base_prefix) / "lib"), "/usr/share/zoneinfo", "/dev/null", "/dev/urandom"}
    return sorted(path for path in paths if os.path.exists(path))  # noqa: PTH110 - text in, text out


def _hook(root: str, library: Iterable[str]) -> Callable[[str, tuple[object, ...]], None]:
    readable = (root, *library)

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event in REFUSED_EVENTS:
            raise LeftTheLab(1, f"the lab refuses {event} {arguments!r:.200}")
        if event in PATH_EVENTS:
            allowed = readable if _only_reads(event, arguments) else (root,)
            for argument in arguments[:2]:
                if not _inside(argument, allowed):
                    raise LeftTheLab(1, f"the lab refuses {event} on {argument!r}, which is outside its root")

    return refuse


def _only_reads(event: str, arguments: tuple[object, ...]) -> bool:
    if event in ("os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "glob.glob"):
        return True
    if event != "open" or len(arguments) < 3:
        return False
    flags = arguments[2]
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    return isinstance(flags, int) and not flags & writes


def _inside(argument: object, allowed: Iterable[str]) -> bool:
    """True for a path inside; descriptors and other values were checked where they were opened."""
    if isinstance(argument, bytes):
        argument = os.fsdecode(argument)
    if not isinstance(argument, str) or not argument.startswith("/"):
        return not isinstance(argument, str) or ".." not in argument.split("/")
    path = os.path.normpath(argument)
    return any(path == base or path.startswith(base.rstrip("/") + "/") for base in allowed)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _landlock(root: Path, library: Iterable[Path]) -> None:
    version = min(landlock_version(), 6)
    everything = ALL_BY_VERSION[min(version, 5)]
    network = CONNECT_AND_BIND if version >= 4 else 0
    scope = SCOPE_ALL if version >= 6 else 0
    attributes = struct.pack("QQQ", everything, network, scope)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    libc = _libc()
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    _check(ruleset, "make a Landlock ruleset")
    try:
        _allow(libc, ruleset, root, everything)
        for path in library:
            _allow(libc, ruleset, path, READ)
        _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges")
        _check(libc.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "enter the Landlock ruleset")
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, access: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        granted = access if path.is_dir() else access & 0b110
        rule = struct.pack("=Qi", granted, folder)
        _check(
            libc.syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(RULE_PATH_BENEATH), rule, ctypes.c_uint32(0)),
            f"allow {path}",
        )
    finally:
        os.close(folder)


def _check(result: int, verb: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unable to {verb}: {os.strerror(number)}")
