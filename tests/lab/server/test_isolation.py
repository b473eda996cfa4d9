"""The agent's process cannot reach this machine: not by a path, not by a program, not by a socket."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from provision.lab import isolation
from provision.lab.rootfs import Rootfs

PACKAGE = str(Path(__file__).resolve().parents[3])

ATTEMPTS = {
    "read outside": "open('/etc/hostname').read()",
    "read by a link": "open(root + '/link').read()",
    "write outside": "open('/tmp/pvectl-lab-escaped', 'w')",
    "write by dots": "open(root + '/../pvectl-lab-escaped', 'w')",
    "list outside": "os.listdir('/etc')",
    "remove outside": "os.remove('/tmp/nothing')",
    "rename out": "os.rename(root + '/file', '/tmp/pvectl-lab-escaped')",
    "make a folder outside": "os.mkdir('/tmp/pvectl-lab-escaped')",
    "link out": "os.link('/etc/hostname', root + '/stolen')",
    "a program": "subprocess.run(['/bin/true'])",
    "a shell": "os.system('true')",
    "exec": "os.execv('/bin/true', ['true'])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "fork": "os.fork()",
    "a signal": "os.kill(1, 0)",
    "a socket": "socket.create_connection(('127.0.0.1', 9))",
    "ctypes": "ctypes.CDLL(None).getpid()",
    "chmod outside": "os.chmod('/tmp', 0o777)",
}

PROGRAM = """
import sys
sys.path.insert(0, {package!r})
import ctypes, os, socket, subprocess
from pathlib import Path
from provision.lab import isolation
root = sys.argv[1]
{before}
isolation.enclose(Path(root))
open(root + '/file').read()
open(root + '/written', 'w').write('x')
os.rename(root + '/written', root + '/renamed')
try:
    {attempt}
except OSError as error:
    print(type(error).__name__, error)
    raise SystemExit(0)
print('ESCAPED')
"""


def _try(tmp_path: Path, attempt: str, before: str = "") -> str:
    (tmp_path / "file").write_text("inside")
    (tmp_path / "link").unlink(missing_ok=True)
    (tmp_path / "link").symlink_to("/etc/hostname")
    program = PROGRAM.format(package=PACKAGE, attempt=attempt, before=textwrap.dedent(before))
    argv = [sys.executable, "-I", "-S", "-c", program, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ATTEMPTS)
def test_both_layers_together_let_nothing_out(tmp_path: Path, name: str) -> None:
    if name == "read by a link" and not isolation.landlock_version():
        pytest.skip("a link out of the root is Landlock's to stop; this kernel has none")
    assert "ESCAPED" not in _try(tmp_path, ATTEMPTS[name])
    assert not Path("/tmp/pvectl-lab-escaped").exists()


HOOK_MISSES = {"read by a link", "chmod outside"}


@pytest.mark.parametrize("name", [name for name in ATTEMPTS if name not in HOOK_MISSES])
def test_the_audit_hook_alone_stops_it_where_there_is_no_landlock(tmp_path: Path, name: str) -> None:
    said = _try(tmp_path, ATTEMPTS[name], "isolation.landlock_version = lambda: 0")
    assert said.startswith("LeftTheLab")


KERNEL_ONLY = ("read outside", "read by a link", "write outside", "list outside", "a program", "make a folder outside")


@pytest.mark.skipif(not isolation.landlock_version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("name", KERNEL_ONLY)
def test_landlock_alone_stops_it_where_a_hook_would_be_forgotten(tmp_path: Path, name: str) -> None:
    said = _try(tmp_path, ATTEMPTS[name], "sys.addaudithook = lambda hook: None")
    assert said.startswith("PermissionError")


def test_status_names_every_layer() -> None:
    assert set(isolation.layers()) == {"no shell", "audit hook", "landlock"}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/etc/hostname", "etc/hostname"),
        ("/absolute", "etc/hostname"),
        ("/etc/../../../etc/hostname", "etc/hostname"),
        ("/up", "etc/hostname"),
        ("/dir/hostname", "etc/hostname"),
    ],
)
def test_a_path_of_the_host_stays_inside_its_root(tmp_path: Path, path: str, place: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("lab\n")
    (tmp_path / "absolute").symlink_to("/etc/hostname")
    (tmp_path / "up").symlink_to("../../../../../etc/hostname")
    (tmp_path / "dir").symlink_to("/etc")
    root = Rootfs(tmp_path)
    assert root.at(path) == tmp_path / place
    assert root.read(path) == "lab\n"


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        Rootfs(tmp_path).at("/a")
