"""A lab with pvectl on it, for tests of the whole product: as a process of its own, or called in this one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

if TYPE_CHECKING:
    from provision.lab.supervisor import RunningLab

EPYC = "epyc-8x-rtxpro6000"
PVECTL = (sys.executable, "-m", "provision.cli")
SECONDS = 300.0
"""After which a command hangs."""


@dataclass(frozen=True)
class Answer:
    """How one command ended and what it wrote."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def must(self, code: int, *words: str) -> Answer:
        """Require an exit code, and words in what was written."""
        text = f"pvectl {' '.join(self.argv)} ended {self.code}, not {code}\n{self.out}{self.err}"
        assert self.code == code, text
        for word in words:
            assert word in self.out + self.err, f"{word!r} is not in the answer\n{text}"
        return self


class Started:
    """A pvectl that runs, the leader of a process group of its own."""

    def __init__(self, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.argv = argv
        self.seen = ""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            (*PVECTL, *argv), env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def until(self, words: str) -> None:
        """Wait for a line on standard error that begins with these words."""
        assert self.process.stderr is not None
        while line := self.process.stderr.readline().decode():
            self.seen += line
            if line.startswith(words):
                return
        raise AssertionError(f"{words!r} did not come:\n{self.seen}")

    def interrupt(self) -> None:
        """Press Ctrl-C: the signal goes to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> Answer:
        out, err = self.process.communicate(timeout=SECONDS)
        return Answer(self.argv, self.process.returncode, out.decode(), self.seen + err.decode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        with self.process:
            pass


class OnLab:
    """``pvectl`` with a lab's inventory; with ``on_host`` as if it ran on the simulated host itself."""

    def __init__(self, lab: RunningLab, home: Path, *, on_host: bool = False) -> None:
        self.lab = lab
        self.home = home
        self.on_host = on_host
        self._started: list[Started] = []
        self.token = lab.lab.site.read_secret(lab.lab.site.token)

    @property
    def root(self) -> Path:
        return self.lab.root

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a command: the lab's inventory and nothing of the user's own SSH set-up."""
        values = {**self.lab.env(on_host=self.on_host), "HOME": str(self.home), "NO_COLOR": "1", **more}
        values.pop("SSH_AUTH_SOCK", None)
        return values

    def pvectl(self, *argv: str) -> Answer:
        """Run pvectl as a process."""
        done = subprocess.run(
            (*PVECTL, *argv),
            env=self.env(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Answer(argv, done.returncode, done.stdout, done.stderr)

    def start(self, *argv: str) -> Started:
        """Run pvectl as a process beside the test; it is ended with the test."""
        started = Started(argv, self.env())
        self._started.append(started)
        return started

    def close(self) -> None:
        for started in self._started:
            started.close()

    def call(self, *argv: str) -> Answer:
        """Run pvectl in this process: much faster, and the same but for the way into it."""
        from provision.cli import app

        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.env(), clear=True),
            mock.patch.object(sys, "stdin", io.StringIO()),
            contextlib.chdir(self.home),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = app.run(list(argv))
        return Answer(argv, code, out.getvalue(), err.getvalue())

    def inventory(self, change: Callable[[dict[str, Any]], Any], name: str = "changed.yaml") -> str:
        """Write the lab's inventory with a change and return its path."""
        import yaml

        document = yaml.safe_load((self.lab.inventory_on_host if self.on_host else self.lab.inventory).read_text())
        change(document)
        path = self.home / name
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def break_(self, fault: str) -> None:
        self.lab.break_(fault)

    @contextlib.contextmanager
    def holding(self, command: str) -> Iterator[None]:
        """Let this command of the host begin and not end while the block lasts."""
        children = self.lab.host.children
        dispatch, free = children.dispatch, threading.Event()

        async def wait(argv: tuple[str, ...], stdin: bytes) -> Any:
            while argv[0] == command and not free.is_set():
                await asyncio.sleep(0.01)
            return await dispatch(argv, stdin)

        with mock.patch.object(children, "dispatch", wait):
            try:
                yield
            finally:
                free.set()

    def files(self, *tops: str) -> dict[str, tuple[object, ...]]:
        """Everything below these folders of the host (all of it without any): see :func:`picture`."""
        found: dict[str, tuple[object, ...]] = {}
        for top in tops or ("/",):
            found |= picture(self.root, self.root / top.lstrip("/"))
        return found

    def runs(self) -> list[str]:
        folder = self.root / "var/lib/pvectl/runs"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.01)


def picture(root: Path, top: Path) -> dict[str, tuple[object, ...]]:
    """Kind, mode, owner, time and content of every file, link and folder below ``top``, by path below ``root``.

    A folder has no time: it changes when a file in it is written anew.
    """
    found = {}
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        owner = (stat.filemode(about.st_mode), about.st_uid, about.st_gid)
        if path.is_symlink():
            what: tuple[object, ...] = (str(path.readlink()),)
        elif path.is_dir():
            what = ()
        else:
            what = (about.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        found[f"/{path.relative_to(root)}"] = (*owner, *what)
    return found


@pytest.fixture(scope="session")
def lab_host() -> type[OnLab]:
    return OnLab


@pytest.fixture
def on_lab(tmp_path: Path) -> Iterator[Callable[..., OnLab]]:
    """Start a lab: ``on_lab(machine or its name, fault, ..., on_host=False)``."""
    from provision.lab.supervisor import running

    with contextlib.ExitStack() as stack:

        def start(machine: Any = EPYC, *faults: str, on_host: bool = False) -> OnLab:
            lab = stack.enter_context(running(machine, faults, boot_delay=0.05))
            return stack.enter_context(contextlib.closing(OnLab(lab, tmp_path, on_host=on_host)))

        yield start


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the tests that count have counted, whichever worker ran them."""
    reports = [report for group in ("passed", "failed", "") for report in terminalreporter.stats.get(group, [])]
    lines = [
        line
        for report in sorted(reports, key=lambda report: str(getattr(report, "nodeid", "")))
        if "counted" in getattr(report, "keywords", {})
        for name, text in report.sections
        if name.startswith("Captured stdout")
        for line in text.splitlines()
        if line.strip()
    ]
    if lines:
        terminalreporter.section("counts")
        for line in dict.fromkeys(lines):
            terminalreporter.write_line(line)
