"""The far side: one file, standard library only, Python 3.9 or newer.

It is sent over the wire and executed by the bootstrap (:mod:`provision.remote.bootstrap`); nothing is left on
the host.  It answers requests in frames (4 bytes of length, big endian, then the payload): a request is a JSON
header and ``bodies`` raw frames, an answer is one or more such messages, the last with ``"end": true``.

Every path is resolved inside ``root``, component by component: an absolute symbolic link means the root, and
``..`` stops there.  End of input stops the agent before its next request; a request that has begun is finished.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import hashlib
import json
import os
import re
import selectors
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Optional

# These aliases are evaluated when the file is loaded, and Python 3.9 knows no X | Y.
Header = dict[str, Any]
Answer = tuple[Header, Optional[bytes]]
Outcome = tuple[int, bytes, bytes, bool]
Runner = Callable[[tuple[str, ...], bytes, float, Mapping[str, str]], Outcome]

PROTOCOL = 1
FRAME_LIMIT = 256 * 1024 * 1024
OUTPUT_LIMIT = 64 * 1024 * 1024
LINKS_LIMIT = 40
DRAIN_SECONDS = 0.5
TERM_SECONDS = 1.0
IMMUTABLE_FLAG = 0x10
APPEND_ONLY_FLAG = 0x20
GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS on 64-bit Linux (linux/fs.h)
SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_OWNERS = ("/etc/pve/",)  # pmxcfs is a FUSE file system that refuses chmod, chown and utimes


class Refusal(Exception):
    """The host refuses an act: ``code`` is for the program, the message for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def main(
    stdin: BinaryIO,
    stdout: BinaryIO,
    root: str = "/",
    runner: Runner | None = None,
    marker: str = "",
    environ: Mapping[str, str] | None = None,
    euid: int | None = None,
) -> None:
    """Serve requests until the input ends.

    ``stdin`` and ``stdout`` are buffered binary files.  ``runner(argv, stdin, timeout, env)`` replaces child
    processes and returns ``(rc, out, err, timed_out)``; ``environ`` and ``euid`` replace this process's own.
    """
    if runner is None and threading.current_thread() is threading.main_thread():
        # A handler and not SIG_IGN, which children would inherit: the step that runs is finished.
        signal.signal(signal.SIGHUP, lambda *_: None)
    agent = Agent(root, runner or run_child, os.environ if environ is None else environ, euid)
    wire = Wire(stdin, stdout)
    try:
        wire.start(marker)
        wire.send(agent.hello())
        while True:
            request = wire.receive()
            if request is None:
                return
            answer(agent, wire, *request)
    except BrokenPipeError:
        return


def answer(agent: Agent, wire: Wire, header: Header, bodies: list[bytes]) -> None:
    """Answer one request; a refusal and a fault of ours are answers too."""
    try:
        if header.get("op") == "read":
            for item, content in agent.read(header):
                wire.send({"item": item}, *([] if content is None else [content]))
            wire.send({"end": True})
        else:
            result, data = agent.act(header, bodies)
            wire.send(dict(result, end=True), *data)
    except BrokenPipeError:
        raise
    except Refusal as refusal:
        wire.send({"end": True, "error": refusal.code, "message": str(refusal)})
    except OSError as error:
        wire.send({"end": True, "error": code_of(error), "message": error.strerror or str(error)})
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = where.tb_lineno if where is not None else 0
        message = "{} in the agent, line {}: {}".format(type(error).__name__, line, error)
        wire.send({"end": True, "error": "bug", "message": message})


class Wire:
    """Messages over two binary files."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin = stdin
        self.stdout = stdout

    def start(self, marker: str) -> None:
        """Write the line after which answers begin, so that a chatty shell does no harm."""
        self.stdout.write(("\n" + marker + "\n").encode())

    def send(self, header: Header, *bodies: bytes) -> None:
        if bodies:
            header = dict(header, bodies=len(bodies))
        for payload in (json.dumps(header, separators=(",", ":")).encode(), *bodies):
            self.stdout.write(struct.pack(">I", len(payload)))
            self.stdout.write(payload)
        if "item" not in header:
            self.stdout.flush()

    def receive(self) -> tuple[Header, list[bytes]] | None:
        """Return ``(header, bodies)``, or ``None`` where the input has ended, also in the middle of a request."""
        payload = self.frame()
        if payload is None:
            return None
        header = json.loads(payload.decode())
        bodies = []
        for _ in range(header.get("bodies", 0)):
            body = self.frame()
            if body is None:
                return None
            bodies.append(body)
        return header, bodies

    def frame(self) -> bytes | None:
        head = exactly(self.stdin, 4)
        if head is None:
            return None
        (length,) = struct.unpack(">I", head)
        return exactly(self.stdin, length) if length <= FRAME_LIMIT else None


def exactly(stream: BinaryIO, count: int) -> bytes | None:
    """Return ``count`` bytes, or ``None`` where the stream ends before."""
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


# --- paths inside the root -------------------------------------------------------------------------------------


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decode(raw: bytes) -> str:
    """Return a name as text; a byte that is no UTF-8 becomes an escape, because JSON readers refuse surrogates."""
    return raw.decode("utf-8", "backslashreplace")


class Root:
    """Turns a path as the host sees it into one that this process can open, never outside the root."""

    def __init__(self, root: str) -> None:
        self.root = b"" if root in ("/", "") else encode(os.path.realpath(root))

    def inside(self, path: str, follow: bool = True) -> bytes:
        """Return the real path (bytes).  ``follow=False`` leaves a link in the last component as it is."""
        raw = encode(path)
        if not raw.startswith(b"/") or b"\0" in raw:
            raise Refusal("bad-path", "the path is not absolute: {!r}".format(path))
        if not self.root:
            return raw
        return self.walk([part for part in raw.split(b"/") if part], follow)

    def walk(self, todo: list[bytes], follow: bool) -> bytes:
        done: list[bytes] = []
        hops = 0
        while todo:
            part = todo.pop(0)
            if part in (b"", b"."):
                continue
            if part == b"..":
                del done[-1:]
                continue
            here = b"/".join([self.root, *done, part])
            if (todo or follow) and os.path.islink(here):
                hops += 1
                if hops > LINKS_LIMIT:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink(here)
                if target.startswith(b"/"):
                    done = []
                todo[:0] = target.split(b"/")
                continue
            done.append(part)
        return b"/".join([self.root, *done]) if done else self.root


# --- reading ---------------------------------------------------------------------------------------------------

BRACES = re.compile(r"\{([^{}]*)\}")
WILD = re.compile(r"[*?\[]")


def alternatives(pattern: str) -> list[str]:
    """Expand every ``{a,b}``: ``/x/{a,b}`` gives ``/x/a`` and ``/x/b``, in the order written."""
    match = BRACES.search(pattern)
    if match is None:
        return [pattern]
    expanded: list[str] = []
    for choice in match.group(1).split(","):
        expanded.extend(alternatives(pattern[: match.start()] + choice + pattern[match.end() :]))
    return expanded


class Listing:
    """Folder listings of one read, kept so that many patterns below one folder list it once."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.names: dict[str, list[str] | OSError] = {}

    def of(self, folder: str) -> list[str] | OSError:
        """Return the sorted names in ``folder``, or the OSError that listing it gave."""
        if folder not in self.names:
            try:
                self.names[folder] = sorted(map(decode, os.listdir(self.root.inside(folder or "/"))))
            except OSError as error:
                self.names[folder] = error
        return self.names[folder]

    def expand(self, pattern: str) -> tuple[list[str], OSError | None]:
        """Return ``(paths, problem)``.  A literal tail after the last wildcard is appended whether it exists or not."""
        parts = pattern.strip("/").split("/")
        wild = [index for index, part in enumerate(parts) if WILD.search(part)]
        if not wild:
            return [pattern], None
        paths = [""]
        problem: OSError | None = None
        for part in parts[: wild[-1] + 1]:
            if not WILD.search(part):
                paths = [path + "/" + part for path in paths]
                continue
            found: list[str] = []
            for path in paths:
                names = self.of(path)
                if isinstance(names, OSError):
                    problem = worse(problem, names)
                    continue
                found.extend(path + "/" + name for name in names if matches(name, part))
            paths = found
        tail = "".join("/" + part for part in parts[wild[-1] + 1 :])
        return [path + tail for path in paths], problem


def matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))


def worse(one: OSError | None, other: OSError) -> OSError:
    """Of two reasons why a folder gave no names, return the one that hides more: absence hides nothing."""
    if one is None or state_of(one) == "absent":
        return other
    return one


def state_of(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "absent"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied"
    return "error"


def failed(key: str, kind: str, error: OSError) -> Answer:
    state = state_of(error)
    item: Header = {"key": key, "kind": kind, "state": state}
    if state == "error":
        item["reason"] = error.strerror or str(error)
    return item, None


def read_all(descriptor: int, limit: int) -> tuple[bytes, bool, OSError | None]:
    """Return ``(data, cut, error)``: what could be read up to ``limit`` bytes, even where reading fails midway."""
    data = bytearray()
    try:
        while len(data) <= limit:
            part = os.read(descriptor, min(1 << 20, limit + 1 - len(data)))
            if not part:
                return bytes(data), False, None
            data += part
    except OSError as error:
        return bytes(data), False, error
    return bytes(data[:limit]), True, None


def read_file(real: bytes, key: str, limit: int) -> Answer:
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return {"key": key, "kind": "file", "state": "error", "reason": "it is not a regular file"}, None
        data, cut, error = read_all(descriptor, limit)
    finally:
        os.close(descriptor)
    item: Header = {"key": key, "kind": "file", "state": "read", "mode": stat.S_IMODE(about.st_mode)}
    if not key.startswith(("/sys/", "/proc/")):
        item.update(uid=about.st_uid, gid=about.st_gid, mtime_ns=about.st_mtime_ns)
    if cut:
        item.update(state="truncated", reason="it is larger than {} bytes".format(limit))
    elif error is not None and not data:
        return failed(key, "file", error)
    elif error is not None:
        item.update(state="truncated", reason="after {} bytes: {}".format(len(data), error.strerror))
    return item, data


def cut_output(item: Header, out: bytes, err: bytes, limit: int) -> bytes:
    if len(out) > limit:
        item.update(state="truncated", reason="its output is larger than {} bytes".format(limit))
    item["stderr"] = decode(err[:65536])
    return out[:limit]


# --- child processes -------------------------------------------------------------------------------------------


class Pump:
    """Moves bytes between a child and this process: feeds its input, keeps its outputs up to a limit."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self.outputs: dict[Any, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        self.rest = memoryview(stdin)
        self.selector = selectors.DefaultSelector()
        for stream in self.outputs:
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self.selector.register(process.stdin, selectors.EVENT_WRITE)

    def open(self) -> bool:
        return any(key.fileobj in self.outputs for key in self.selector.get_map().values())

    def step(self, seconds: float) -> None:
        for key, _ in self.selector.select(seconds):
            stream: Any = key.fileobj
            if self.pull(stream) if stream in self.outputs else self.push(stream):
                self.selector.unregister(stream)
                stream.close()

    def pull(self, stream: Any) -> bool:
        try:
            part = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        room = OUTPUT_LIMIT + 1 - len(self.outputs[stream])
        self.outputs[stream] += part[: max(0, room)]
        return not part

    def push(self, stream: Any) -> bool:
        try:
            self.rest = self.rest[os.write(stream.fileno(), self.rest[: 1 << 16]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:  # a child may end before it has read everything
            return True
        return not self.rest

    def close(self) -> None:
        streams: list[Any] = [key.fileobj for key in self.selector.get_map().values()]
        for stream in streams:
            stream.close()
        self.selector.close()


def run_child(argv: tuple[str, ...], stdin: bytes, timeout: float, env: Mapping[str, str]) -> Outcome:
    """Run ``argv`` in a process group of its own; returns ``(rc, out, err, timed_out)``, 127 for no such command."""
    try:
        process = subprocess.Popen(
            [encode(word) for word in argv],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=child_environment(env),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        text = "{}: {}".format(argv[0], "command not found" if missing else error.strerror)
        return 127 if missing else 126, b"", text.encode(), False
    pump = Pump(process, stdin)
    try:
        timed_out = attend(process, pump, timeout)
    finally:
        end_group(process)
        pump.close()
    out, err = pump.outputs.values()
    return process.returncode, bytes(out), bytes(err), timed_out


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    merged = {key: value for key, value in os.environ.items() if key not in ("LANGUAGE", "LANG")}
    merged["PATH"] = ":".join(dict.fromkeys((merged.get("PATH", "") + ":" + SBIN).strip(":").split(":")))
    merged["LC_ALL"] = "C"
    merged.update(env)
    return merged


def attend(process: subprocess.Popen[bytes], pump: Pump, timeout: float) -> bool:
    """Wait for the child; returns whether the time was up.  A grandchild that keeps a pipe open is not waited for."""
    end = time.monotonic() + timeout
    drained_at: float | None = None
    while True:
        now = time.monotonic()
        if process.poll() is not None:
            drained_at = drained_at or now + DRAIN_SECONDS
            if not pump.open() or now >= drained_at:
                return False
        elif now >= end:
            stop_group(process, pump)
            return True
        if pump.open():
            pump.step(min(0.05, max(0.0, end - now)))
        else:
            time.sleep(0.005)


def stop_group(process: subprocess.Popen[bytes], pump: Pump) -> None:
    """End the whole process group: politely, and after a moment for good."""
    signal_group(process, signal.SIGTERM)
    until = time.monotonic() + TERM_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if pump.open():
            pump.step(0.05)
        else:
            time.sleep(0.02)
    signal_group(process, signal.SIGKILL)
    process.wait()


def end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        signal_group(process, signal.SIGKILL)
        process.wait()


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


# --- changing files --------------------------------------------------------------------------------------------

CODES = {
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "read-only",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.ENOENT: "absent",
    errno.ENOTDIR: "absent",
    errno.ENOTEMPTY: "not-empty",
}


def code_of(error: OSError) -> str:
    return CODES.get(error.errno or 0, "failed")


def flags_of(real: bytes) -> int:
    """Return the inode flags of chattr(1), 0 where the file system has none."""
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, GET_FLAGS, struct.pack("l", 0)))
        return int(flags)
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def explain(error: OSError, *paths: bytes) -> Refusal:
    """Return ``error`` as a refusal that names an immutable file or folder where that is the cause."""
    if error.errno in (errno.EPERM, errno.EACCES):
        for path in paths:
            if flags_of(path) & (IMMUTABLE_FLAG | APPEND_ONLY_FLAG):
                return Refusal("immutable", "it or its folder is immutable (chattr +i or +a)")
    return Refusal(code_of(error), error.strerror or str(error))


def plain_status(real: bytes) -> os.stat_result | None:
    """Return lstat of a regular file, ``None`` where nothing is there; anything else is refused."""
    try:
        about = os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(about.st_mode):
        target = decode(os.readlink(real))
        raise Refusal("symlink", "it is a symbolic link to {}; give the file itself".format(target))
    if not stat.S_ISREG(about.st_mode):
        raise Refusal("not-a-file", "it is not a regular file")
    return about


def metadata(path: str, real: bytes, about: os.stat_result | None) -> Header:
    """Return what a file is now, with the digest of its content."""
    if about is None:
        return {"path": path, "sha256": None}
    with open(real, "rb") as stream:
        digest = hashlib.sha256()
        for part in iter(lambda: stream.read(1 << 20), b""):
            digest.update(part)
    return {
        "path": path,
        "sha256": digest.hexdigest(),
        "mode": stat.S_IMODE(about.st_mode),
        "uid": about.st_uid,
        "gid": about.st_gid,
        "mtime_ns": about.st_mtime_ns,
        "atime_ns": about.st_atime_ns,
    }


def require(before: Header, expect: str | None) -> None:
    """Refuse where the content is not what the caller has seen."""
    if before["sha256"] == expect:
        return
    if expect is None:
        raise Refusal("stale", "it exists already")
    raise Refusal("stale", "it is gone" if before["sha256"] is None else "its content has changed")


def sync_folder(real: bytes) -> None:
    descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # FUSE may not know fsync of folders
            raise
    finally:
        os.close(descriptor)


def write_fully(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def tolerant(path: str, act: Callable[..., None], *arguments: Any) -> None:
    """Do ``act``; below /etc/pve alone, where owners and times are not kept, a refusal is no error."""
    try:
        act(*arguments)
    except OSError as error:
        if not path.startswith(NO_OWNERS) or error.errno not in (
            errno.EPERM,
            errno.EACCES,
            errno.ENOSYS,
            errno.ENOTSUP,
        ):
            raise


def copy_attributes(source: bytes, descriptor: int) -> None:
    """Copy extended attributes (access lists among them) of the file that is replaced."""
    try:
        names = os.listxattr(source)
    except OSError:  # the file system has none
        return
    for name in names:
        os.setxattr(descriptor, name, os.getxattr(source, name))


def dress(descriptor: int, path: str, real: bytes, wish: Header, about: os.stat_result | None) -> None:
    """Give the new file mode and owner as wished, else as before, else 0644; its time as wished, else now."""
    uid, gid = wish.get("uid"), wish.get("gid")
    mode, mtime = wish.get("mode"), wish.get("mtime_ns")
    atime = None
    if about is not None:
        uid = about.st_uid if uid is None else uid
        gid = about.st_gid if gid is None else gid
        mode = stat.S_IMODE(about.st_mode) if mode is None else mode
        atime = about.st_atime_ns
        tolerant(path, copy_attributes, real, descriptor)
    own = os.fstat(descriptor)
    if (uid, gid) != (own.st_uid, own.st_gid) and (uid is not None or gid is not None):
        tolerant(path, os.fchown, descriptor, -1 if uid is None else uid, -1 if gid is None else gid)
    tolerant(path, os.fchmod, descriptor, 0o644 if mode is None else mode)
    if mtime is not None:
        tolerant(path, set_times, descriptor, mtime if atime is None else atime, mtime)


def set_times(descriptor: int, atime_ns: int, mtime_ns: int) -> None:
    os.utime(descriptor, ns=(atime_ns, mtime_ns))


def replace(path: str, real: bytes, data: bytes, wish: Header, about: os.stat_result | None) -> None:
    """Write a temporary file beside ``real`` and rename it over; on any error nothing is left."""
    folder, name = os.path.split(real)
    sweep(real)
    temporary = os.path.join(folder, b".%s.%s.pvectl" % (name[:200], os.urandom(6).hex().encode()))
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_fully(descriptor, data)
            dress(descriptor, path, real, wish, about)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unmoved(real, about)
        os.rename(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(folder)


def sweep(real: bytes) -> None:
    """Remove temporary files that an agent left beside ``real`` when its host died in the middle of a write."""
    folder, name = os.path.split(real)
    leftover = re.compile(re.escape(b".%s." % name[:200]) + rb"[0-9a-f]{12}\.pvectl")
    for entry in os.listdir(folder):
        if leftover.fullmatch(entry):
            os.unlink(os.path.join(folder, entry))


def unmoved(real: bytes, about: os.stat_result | None) -> None:
    """Refuse where the file was touched since its digest was taken: the last look before the rename."""
    now = plain_status(real)
    if stamp(now) != stamp(about):
        raise Refusal("stale", "it changed while it was being replaced")


def stamp(about: os.stat_result | None) -> tuple[int, int] | None:
    """Return what changes with the content; inode numbers do not last on a FUSE file system."""
    return None if about is None else (about.st_size, about.st_mtime_ns)


def make_parents(real: bytes, mode: int) -> None:
    """Make ``real`` and every folder above it that is missing; each new name is synced into its parent."""
    if os.path.isdir(real):
        return
    parent = os.path.dirname(real)
    make_parents(parent, mode)
    try:
        os.mkdir(real, mode)
    except FileExistsError:
        if not os.path.isdir(real):
            raise
        return
    os.chmod(real, mode)
    sync_folder(parent)


# --- requests --------------------------------------------------------------------------------------------------


def pack_program(source: bytes, stdin: bytes) -> bytes:
    """Return a program that runs ``source`` with ``stdin`` as its input: ``python3 -`` reads its own to the end."""
    lines = [
        "import io, sys",
        "source = {!r}".format(source),
        "stdin = {!r}".format(stdin),
        "sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding='utf-8')",
        "exec(compile(source, '<pvectl program>', 'exec'), {'__name__': '__main__'})",
    ]
    return "\n".join(lines).encode() + b"\n"


class Agent:
    """The acts of the agent.  Each returns a JSON header and raw bodies, or raises."""

    def __init__(self, root: str, runner: Runner, environ: Mapping[str, str], euid: int | None) -> None:
        self.root = Root(root)
        self.runner = runner
        self.environ = environ
        self.euid = os.geteuid() if euid is None else euid

    def hello(self) -> Header:
        return {"hello": PROTOCOL, "euid": self.euid, "python": "{}.{}.{}".format(*sys.version_info[:3]), "end": True}

    def act(self, header: Header, bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        acts = {
            "run": self.run,
            "python": self.python,
            "write": self.write,
            "remove": self.remove,
            "append": self.append,
            "make_folder": self.make_folder,
            "remove_folder": self.remove_folder,
        }
        if header.get("op") not in acts:
            raise Refusal("bad-request", "the agent knows no request {!r}".format(header.get("op")))
        return acts[header["op"]](header, bodies)

    # reading

    def read(self, header: Header) -> Iterator[Answer]:
        """Yield ``(item, data)`` for every want; what the deadline leaves no time for is not asked."""
        end = time.monotonic() + header.get("deadline", 60.0)
        listing = Listing(self.root)
        for want in header["wants"]:
            if want["kind"] == "command":
                yield self.read_command(want, end)
            else:
                for pattern in alternatives(want["pattern"]):
                    yield from self.read_pattern(want, pattern, listing, end)

    def read_pattern(self, want: Header, pattern: str, listing: Listing, end: float) -> Iterator[Answer]:
        kind = want["kind"]
        paths, problem = listing.expand(pattern)
        ends_wild = bool(WILD.search(pattern.rsplit("/", 1)[-1]))
        found = 0
        for path in paths:
            if time.monotonic() >= end:
                yield {"key": path, "kind": kind, "state": "not_asked", "reason": "the time was up"}, None
                found += 1
                continue
            if ends_wild and not self.is_kind(path, kind):
                continue
            found += 1
            yield self.read_path(path, kind, want["limit"])
        if problem is not None and state_of(problem) != "absent":
            yield failed(pattern, kind, problem)
        elif not found:
            yield {"key": pattern, "kind": kind, "state": "absent", "reason": "nothing matches"}, None

    def is_kind(self, path: str, kind: str) -> bool:
        """A wildcard for files passes over folders, one for links over what is no link."""
        try:
            mode = os.stat(self.root.inside(path, kind != "link"), follow_symlinks=kind != "link").st_mode
        except OSError as error:
            return kind == "file" and state_of(error) != "absent"
        return {"file": not stat.S_ISDIR(mode), "link": stat.S_ISLNK(mode), "dir": stat.S_ISDIR(mode)}[kind]

    def read_path(self, path: str, kind: str, limit: int) -> Answer:
        try:
            real = self.root.inside(path, follow=kind != "link")
            if kind == "file":
                return read_file(real, path, limit)
            if kind == "link":
                data = decode(os.readlink(real))
            else:
                data = "".join(name + "\n" for name in sorted(map(decode, os.listdir(real))))
            return {"key": path, "kind": kind, "state": "read"}, data.encode()
        except Refusal as refusal:
            return {"key": path, "kind": kind, "state": "error", "reason": str(refusal)}, None
        except OSError as error:
            if kind == "link" and error.errno == errno.EINVAL:
                return self.no_link(path), None
            return failed(path, kind, error)

    def no_link(self, path: str) -> Header:
        """A folder of that name is an answer: an IOMMU has one where the functions behind it have a link to it."""
        if self.is_kind(path, "dir"):
            return {"key": path, "kind": "link", "state": "absent", "reason": "it is a folder"}
        return {"key": path, "kind": "link", "state": "error", "reason": "it is not a symbolic link"}

    def read_command(self, want: Header, end: float) -> Answer:
        key = want["key"] or " ".join(want["argv"])
        item = {"key": key, "kind": "command", "state": "read", "argv": want["argv"]}
        if not want["argv"]:
            return self.read_builtin(item)
        left = min(want["timeout"], end - time.monotonic())
        if left <= 0:
            return dict(item, state="not_asked", reason="the time was up"), None
        rc, out, err, timed_out = self.runner(tuple(want["argv"]), b"", left, {"LC_ALL": "C"})
        item["rc"] = rc
        if rc == 127:
            return dict(item, state="absent", stderr=decode(err[:4096])), None
        if rc == 126 and not out:
            return dict(item, state="denied", stderr=decode(err[:4096])), None
        data = cut_output(item, out, err, want["limit"])
        if timed_out:
            item.update(state="error", reason="it did not end within {:g} s".format(left))
        return item, data

    def read_builtin(self, item: Header) -> Answer:
        if item["key"] != "ssh-connection":
            return dict(item, state="error", reason="it has no argv"), None
        value = self.environ.get("SSH_CONNECTION") or (ancestor_connection() if self.environ is os.environ else "")
        return (dict(item, rc=0), value.encode()) if value else (dict(item, state="absent"), None)

    # running

    def run(self, header: Header, bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        stdin = bodies[0] if bodies else b""
        return self.result(self.runner(tuple(header["argv"]), stdin, header["timeout"], self.env(header)))

    def python(self, header: Header, bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        source, stdin = bodies
        program = pack_program(source, stdin) if stdin else source
        argv = ("python3", "-I", "-", *header["argv"])
        return self.result(self.runner(argv, program, header["timeout"], self.env(header)))

    def env(self, header: Header) -> dict[str, str]:
        return {"LC_ALL": "C", **(header.get("env") or {})}

    def result(self, outcome: Outcome) -> tuple[Header, list[bytes]]:
        rc, out, err, timed_out = outcome
        cut = len(out) > OUTPUT_LIMIT or len(err) > OUTPUT_LIMIT
        return {"rc": rc, "timed_out": timed_out, "cut": cut}, [out[:OUTPUT_LIMIT], err[:OUTPUT_LIMIT]]

    # changing

    def place(self, path: str) -> bytes:
        """Return the real path of a file that may be changed: links in its folders are followed, never its own."""
        if path.endswith("/") or os.path.basename(path) in ("", ".", ".."):
            raise Refusal("bad-path", "the path names no file")
        folder, name = os.path.split(path)
        return os.path.join(self.root.inside(folder), encode(name))

    def write(self, header: Header, bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        path = header["path"]
        real = self.place(path)
        folder = os.path.dirname(real)
        try:
            if header.get("make_parents"):
                make_parents(folder, 0o755)
            about = plain_status(real)
            before = metadata(path, real, about)
            require(before, header["expect"])
            replace(path, real, bodies[0], header, about)
            after = metadata(path, real, plain_status(real))
        except OSError as error:
            raise explain(error, real, folder) from None
        if after["sha256"] != hashlib.sha256(bodies[0]).hexdigest():
            raise Refusal("failed", "what was read back is not what was written")
        return {"before": before, "after": after}, []

    def remove(self, header: Header, _bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        path = header["path"]
        real = self.place(path)
        folder = os.path.dirname(real)
        try:
            before = metadata(path, real, plain_status(real))
            require(before, header["expect"])
            sweep(real)
            os.unlink(real)
            sync_folder(folder)
        except OSError as error:
            raise explain(error, real, folder) from None
        return {"before": before, "after": {"path": path, "sha256": None}}, []

    def append(self, header: Header, bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        real = self.place(header["path"])
        folder = os.path.dirname(real)
        try:
            about = plain_status(real)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(real, flags, 0o600)
            try:
                append_whole(descriptor, bodies[0])
            finally:
                os.close(descriptor)
            if about is None:
                sync_folder(folder)
        except OSError as error:
            raise explain(error, real, folder) from None
        return {}, []

    def make_folder(self, header: Header, _bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        real = self.root.inside(header["path"])
        try:
            make_parents(real, header["mode"])
        except OSError as error:
            raise explain(error, os.path.dirname(real)) from None
        return {}, []

    def remove_folder(self, header: Header, _bodies: list[bytes]) -> tuple[Header, list[bytes]]:
        real = self.place(header["path"])
        folder = os.path.dirname(real)
        try:
            os.rmdir(real)
            sync_folder(folder)
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            raise explain(error, real, folder) from None
        return {}, []


def append_whole(descriptor: int, data: bytes) -> None:
    """Append all of ``data`` or nothing: a full disk must not leave half a line in a journal."""
    size = os.fstat(descriptor).st_size
    try:
        write_fully(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def ancestor_connection() -> str:
    """Return SSH_CONNECTION of a process above this one: sudo drops it from the environment of what it runs."""
    pid = os.getppid()
    for _ in range(6):
        try:
            with open("/proc/{}/environ".format(pid), "rb") as stream:
                for entry in stream.read().split(b"\0"):
                    if entry.startswith(b"SSH_CONNECTION="):
                        return decode(entry.split(b"=", 1)[1])
            with open("/proc/{}/stat".format(pid)) as stream:
                pid = int(stream.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            return ""
        if pid <= 1:
            return ""
    return ""
