"""How the agent gets to the far side and starts there.

The far side runs ``python3 -I -c BOOTSTRAP MARKER``.  The first frame of its input is the agent's source, which
the bootstrap executes only if it has the digest that stands in the bootstrap.  ``-I`` keeps a ``json.py`` in the
login folder from being imported.  The text has no line feed, single quote, ``$``, ``!`` or backslash, so that
every login shell passes it on as it is.
"""

from __future__ import annotations

import ast
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import BinaryIO

from provision.remote import agent

AGENT_SOURCE: bytes = files("provision.remote").joinpath("agent.py").read_bytes()
AGENT_SHA256: str = hashlib.sha256(AGENT_SOURCE).hexdigest()

MINIMUM_PYTHON = (3, 9)
COMPLAINT = "pvectl:"
"""Begins every line that the bootstrap itself writes to standard error."""

DOOR_MARKER = "pvectl-door"
"""The marker on the lab's unix socket, where there is no command line to carry one."""

BOOTSTRAP: str = (
    "import sys;"
    f"sys.version_info<{MINIMUM_PYTHON} and sys.exit("
    f'"{COMPLAINT} python3 is version "+sys.version.split()[0]+", 3.9 or newer is needed");'
    "import hashlib;i=sys.stdin.buffer;o=sys.stdout.buffer;"
    's=i.read(int.from_bytes(i.read(4),"big"));'
    f'hashlib.sha256(s).hexdigest()=="{AGENT_SHA256}" or sys.exit("{COMPLAINT} the agent was damaged on the way");'
    'g={"__name__":"pvectl_agent"};'
    'exec(compile(s,"<pvectl agent>","exec"),g);'
    'g["main"](i,o,marker=sys.argv[1])'
)

Runner = Callable[[tuple[str, ...], bytes, float, Mapping[str, str]], tuple[int, bytes, bytes, bool]]


def new_marker() -> str:
    """Return a line that no shell's greeting holds."""
    return f"pvectl-{secrets.token_hex(16)}"


def command(marker: str) -> tuple[str, ...]:
    """Return the argv that starts the agent."""
    return ("python3", "-I", "-c", BOOTSTRAP, marker)


def marker_of(argv: Sequence[str]) -> str | None:
    """Return the marker if ``argv`` starts exactly this version's agent, ``None`` otherwise.  For the lab."""
    if len(argv) == 5 and tuple(argv) == command(argv[4]):
        return argv[4]
    return None


def serve(
    stdin: BinaryIO,
    stdout: BinaryIO,
    marker: str,
    *,
    root: str,
    runner: Runner,
    environ: Mapping[str, str] | None = None,
    euid: int = 0,
) -> None:
    """Do in this process what the far side does: check the first frame and run the agent on ``root``.  For the lab.

    Returns when the input ends.  Raises :class:`ValueError` where the first frame is not this version's agent.
    """
    head = agent.exactly(stdin, 4)
    source = agent.exactly(stdin, int.from_bytes(head, "big")) if head else None
    if source is None:
        return
    if hashlib.sha256(source).hexdigest() != AGENT_SHA256:
        raise ValueError("the lab runs only the agent that pvectl ships, and these are other bytes")
    agent.main(stdin, stdout, root=root, runner=runner, marker=marker, environ=dict(environ or {}), euid=euid)


def unpack_program(program: bytes) -> tuple[bytes, bytes]:
    """Return ``(source, stdin)`` of what ``python3 -I -`` is given by ``Session.python``.  For the lab.

    Without input of its own the program is the source itself.
    """
    lines = program.split(b"\n")
    if lines[0] != b"import io, sys" or not lines[1].startswith(b"source = ") or not lines[2].startswith(b"stdin = "):
        return program, b""
    source, stdin = (ast.literal_eval(line.split(b" = ", 1)[1].decode()) for line in lines[1:3])
    if program != agent.pack_program(source, stdin):
        return program, b""
    return source, stdin
