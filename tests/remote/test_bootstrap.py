"""The agent must start anywhere: old Python, any login shell, nothing installed."""

import ast
import shutil
import subprocess
import sys

import pytest

from provision.errors import NoPython
from provision.remote import agent, bootstrap, quoting
from provision.remote.client import AgentSession, Peer
from provision.remote.frames import frame
from provision.remote.local import ChildChannel
from provision.remote.session import Want


def test_bootstrap_survives_every_login_shell():
    # csh expands ! and breaks at line feeds even inside quotes; fish and POSIX shells agree on plain single quotes.
    assert not set(bootstrap.BOOTSTRAP) & set("\n'$!\\`")
    line = quoting.join(bootstrap.command("m"))
    assert line == f"python3 -I -c '{bootstrap.BOOTSTRAP}' m"


def test_agent_is_one_stdlib_file_for_python_3_9():
    module = ast.parse(bootstrap.AGENT_SOURCE, feature_version=(3, 9))
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name) or ""
        for node in ast.walk(module)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)
    assert not any(isinstance(node, ast.Match) for node in ast.walk(module))


def test_agent_is_small_enough_for_one_window():
    assert len(bootstrap.AGENT_SOURCE) < 64 * 1024
    assert len(bootstrap.BOOTSTRAP) < 1024


def test_marker_of_knows_exactly_this_version():
    marker = bootstrap.new_marker()
    assert bootstrap.marker_of(bootstrap.command(marker)) == marker
    assert bootstrap.marker_of(("python3", "-I", "-c", "print(1)", marker)) is None
    assert bootstrap.marker_of(("python3", "-I", "-c", bootstrap.BOOTSTRAP)) is None


def start(source: bytes) -> "subprocess.CompletedProcess[bytes]":
    argv = (sys.executable, *bootstrap.command("MARK")[1:])
    return subprocess.run(argv, input=frame(source), capture_output=True, timeout=20, check=False)


def test_bootstrap_runs_only_the_shipped_bytes():
    done = start(bootstrap.AGENT_SOURCE + b"\nprint('more')\n")
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"pvectl: the agent was damaged on the way" in done.stderr


def test_bootstrap_ends_with_its_input():
    done = start(bootstrap.AGENT_SOURCE)
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.startswith(b"\nMARK\n")


def test_serve_refuses_other_bytes(tmp_path):
    import io

    with pytest.raises(ValueError, match="only the agent that pvectl ships"):
        bootstrap.serve(io.BytesIO(frame(b"print(1)")), io.BytesIO(), "m", root=str(tmp_path), runner=agent.run_child)


@pytest.mark.parametrize(
    ("source", "stdin"), [(b"print(1)\n", b"a\nb'\"\xff"), (b"", b"x"), (b"import io, sys\n", b"\0")]
)
def test_programs_unpack_to_what_was_packed(source, stdin):
    assert bootstrap.unpack_program(agent.pack_program(source, stdin)) == (source, stdin)


@pytest.mark.parametrize("program", [b"", b"print(1)", b"import io, sys\nsource = 1\nstdin = 2\nevil()\n"])
def test_a_plain_program_is_its_own_source(program):
    assert bootstrap.unpack_program(program) == (program, b"")


def python(minor: int) -> str:
    path = shutil.which(f"python3.{minor}")
    if path is None or subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no python3.{minor} here")
    return path


def session_with(path: str) -> AgentSession:
    marker = bootstrap.new_marker()
    return AgentSession.start(ChildChannel((path, *bootstrap.command(marker)[1:])), Peer("old"), marker)


@pytest.mark.parametrize("minor", range(9, 15))
def test_every_python_that_is_promised(minor, tmp_path):
    with session_with(python(minor)) as session:
        assert session.python_version.startswith(f"3.{minor}.")
        reads = session.read(
            [Want(kind="file", pattern="/proc/{cmdline,cpuinfo}"), Want(kind="command", argv=("true",))]
        )
        assert [read.item.state for read in reads] == ["read"] * 3
        after = session.write(str(tmp_path / "x"), b"1", expect=None).after
        session.remove(str(tmp_path / "x"), expect=after.sha256)
        assert session.run(["cat"], stdin=b"in").stdout == b"in"


@pytest.mark.parametrize("minor", [6, 7, 8])
def test_an_older_python_is_named(minor):
    with pytest.raises(NoPython, match=rf"version 3\.{minor}\.\d+, 3.9 or newer is needed"):
        session_with(python(minor))
