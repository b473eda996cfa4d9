"""Changing files: compare and swap, whole or not at all, dressed as before."""

import hashlib
import os
import subprocess

import pytest

from provision.errors import PvectlError, StalePlan
from provision.remote import agent


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def target(root):
    path = root / "etc" / "grub"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_007, 2_000_000_009))
    return path


def alone(path):
    """Nothing but the file is in its folder: no temporary file was left."""
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_write_keeps_mode_and_owner_and_takes_a_new_time(rooted, target):
    done = rooted.write("/etc/grub", b"new", expect=sha(b"old"))
    about = target.stat()
    assert target.read_bytes() == b"new"
    assert about.st_mode & 0o7777 == 0o640
    assert about.st_mtime_ns > 2_000_000_009
    assert (done.before.sha256, done.after.sha256) == (sha(b"old"), sha(b"new"))
    assert (done.before.mtime_ns, done.before.mode, done.before.path) == (2_000_000_009, 0o640, "/etc/grub")
    assert alone(target)


def test_write_dresses_as_wished(rooted, target):
    rooted.write("/etc/grub", b"new", expect=sha(b"old"), mode=0o600, mtime_ns=5_000, uid=os.getuid(), gid=os.getgid())
    assert (target.stat().st_mode & 0o7777, target.stat().st_mtime_ns) == (0o600, 5_000)


def test_new_file_is_0644_and_folders_are_made(rooted, root):
    done = rooted.write("/etc/new.d/sub/file", b"x", expect=None, make_parents=True)
    path = root / "etc/new.d/sub/file"
    assert (path.read_bytes(), path.stat().st_mode & 0o7777, done.before.sha256) == (b"x", 0o644, None)


def test_write_then_restore_is_the_same_file(rooted, target):
    before = rooted.write("/etc/grub", b"new", expect=sha(b"old"), mode=0o600).before
    rooted.write("/etc/grub", b"old", expect=sha(b"new"), mode=before.mode, mtime_ns=before.mtime_ns)
    assert (target.read_bytes(), target.stat().st_mode & 0o7777, target.stat().st_mtime_ns) == (
        b"old",
        0o640,
        2_000_000_009,
    )


@pytest.mark.parametrize("expect", [None, sha(b"other")])
def test_a_file_that_changed_is_not_touched(rooted, target, expect):
    with pytest.raises(StalePlan) as caught:
        rooted.write("/etc/grub", b"new", expect=expect)
    assert caught.value.moved == ("/etc/grub",)
    assert caught.value.message.startswith("Unable to write /etc/grub on lab: ")
    assert target.read_bytes() == b"old"
    assert alone(target)


def test_a_file_that_is_gone_is_stale(rooted):
    for change in (
        lambda: rooted.write("/etc/none", b"x", expect=sha(b"")),
        lambda: rooted.remove("/etc/none", expect="0"),
    ):
        with pytest.raises(StalePlan, match="it is gone"):
            change()


def test_links_are_refused_and_folders_followed(rooted, tree, root):
    tree({"/etc/real": "x", "/etc/link": "->/etc/real", "/linked": "->/etc"})
    for change in (
        lambda: rooted.write("/etc/link", b"y", expect=sha(b"x")),
        lambda: rooted.remove("/etc/link", expect=sha(b"x")),
        lambda: rooted.append("/etc/link", b"y"),
    ):
        with pytest.raises(PvectlError, match="symbolic link to /etc/real"):
            change()
    assert (root / "etc/real").read_text() == "x"
    rooted.write("/linked/real", b"y", expect=sha(b"x"))
    assert (root / "etc/real").read_text() == "y"


@pytest.mark.parametrize("path", ["/etc/", "/etc/..", "/", "etc/x"])
def test_a_path_that_names_no_file_is_refused(rooted, path):
    with pytest.raises(PvectlError, match=r"names no file|not absolute"):
        rooted.write(path, b"", expect=None)


def test_what_is_no_file_is_not_replaced(rooted, root):
    os.mkfifo(root / "etc/pipe")
    with pytest.raises(PvectlError, match="not a regular file"):
        rooted.write("/etc/pipe", b"", expect=None)


def test_missing_folder_is_named(rooted):
    with pytest.raises(PvectlError) as caught:
        rooted.write("/etc/none/x", b"", expect=None)
    assert caught.value.message == "Unable to write /etc/none/x on lab: No such file or directory"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("number", "text", "hint"),
    [
        (28, "No space left on device", "free space"),
        (30, "Read-only file system", "mount"),
        (13, "Permission denied", "connect as root"),
        (5, "Input/output error", "look at the file"),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failure_in_the_middle_leaves_nothing(monkeypatch, rooted, target, number, text, hint, call):
    real = os.write

    def fail(*arguments, **options):
        if call == "write" and arguments[0] <= 2:
            return real(*arguments)
        raise OSError(number, text)

    monkeypatch.setattr(agent.os, call, fail)
    with pytest.raises(PvectlError) as caught:
        rooted.write("/etc/grub", b"new", expect=sha(b"old"))
    monkeypatch.undo()
    assert caught.value.message == f"Unable to write /etc/grub on lab: {text}"
    assert hint in caught.value.hint
    assert target.read_bytes() == b"old"
    assert alone(target)


def test_a_change_during_the_write_stops_it(monkeypatch, rooted, target):
    real = agent.dress

    def dress(*arguments):
        real(*arguments)
        target.write_bytes(b"somebody else")

    monkeypatch.setattr(agent, "dress", dress)
    with pytest.raises(StalePlan, match="while it was being replaced"):
        rooted.write("/etc/grub", b"new", expect=sha(b"old"))
    assert target.read_bytes() == b"somebody else"
    assert alone(target)


def test_leftovers_of_a_crash_are_swept(rooted, target):
    (target.parent / ".grub.0123456789ab.pvectl").write_text("half")
    (target.parent / ".grub.keep").write_text("other")
    rooted.write("/etc/grub", b"new", expect=sha(b"old"))
    assert sorted(entry.name for entry in target.parent.iterdir()) == [".grub.keep", "grub"]


@pytest.mark.parametrize("call", ["fchown", "fchmod", "utime"])
def test_pmxcfs_may_refuse_metadata_and_nobody_else(monkeypatch, rooted, tree, root, call):
    def refuse(*arguments, **options):
        raise PermissionError(1, "Operation not permitted")

    tree({"/etc/pve/mapping/pci.cfg": "old", "/etc/other": "old"})
    monkeypatch.setattr(agent.os, call, refuse)
    wish = {"mode": 0o640, "uid": os.getuid() + 1, "mtime_ns": 5}
    rooted.write("/etc/pve/mapping/pci.cfg", b"new", expect=sha(b"old"), **wish)
    assert (root / "etc/pve/mapping/pci.cfg").read_bytes() == b"new"
    with pytest.raises(PvectlError, match="not permitted"):
        rooted.write("/etc/other", b"new", expect=sha(b"old"), **wish)
    assert (root / "etc/other").read_bytes() == b"old"


def test_no_quorum_is_the_hint_below_etc_pve(monkeypatch, rooted, tree):
    tree({"/etc/pve/x": "old"})

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(agent.os, "rename", refuse)
    with pytest.raises(PvectlError) as caught:
        rooted.write("/etc/pve/x", b"new", expect=sha(b"old"))
    assert "quorum" in caught.value.hint


def test_remove(rooted, target):
    with pytest.raises(StalePlan, match="has changed"):
        rooted.remove("/etc/grub", expect=sha(b"other"))
    done = rooted.remove("/etc/grub", expect=sha(b"old"))
    assert (done.before.sha256, done.after.sha256, target.exists()) == (sha(b"old"), None, False)


def test_append_makes_the_file_private_and_grows_it(rooted, root):
    rooted.append("/etc/journal", b"1\n")
    rooted.append("/etc/journal", b"2\n")
    path = root / "etc/journal"
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"1\n2\n", 0o600)
    with pytest.raises(PvectlError, match="No such file"):
        rooted.append("/none/journal", b"1\n")


def test_append_on_a_full_disk_leaves_no_half_line(monkeypatch, rooted, root):
    rooted.append("/etc/journal", b"1\n")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(agent.os, "fsync", fail)
    with pytest.raises(PvectlError, match="No space"):
        rooted.append("/etc/journal", b"2\n")
    assert (root / "etc/journal").read_bytes() == b"1\n"


def test_folders(rooted, root):
    rooted.make_folder("/var/lib/pvectl/runs")
    rooted.make_folder("/var/lib/pvectl/runs")
    assert (root / "var/lib/pvectl/runs").stat().st_mode & 0o7777 == 0o700
    rooted.append("/var/lib/pvectl/runs/x", b"")
    with pytest.raises(PvectlError, match="not empty"):
        rooted.remove_folder("/var/lib/pvectl/runs")
    (root / "var/lib/pvectl/runs/x").unlink()
    rooted.remove_folder("/var/lib/pvectl/runs")
    rooted.remove_folder("/var/lib/pvectl/runs")
    assert not (root / "var/lib/pvectl/runs").exists()


@pytest.fixture
def mounted(tmp_path):
    """A small file system of its own, where this machine lets us mount one."""
    folder = tmp_path / "mnt"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(mounted, local):
    path = mounted / "file"
    path.write_bytes(b"old")
    with pytest.raises(PvectlError, match="No space left"):
        local.write(str(path), b"x" * 200_000, expect=sha(b"old"))
    assert path.read_bytes() == b"old"
    assert alone(path)


def test_a_disk_that_is_really_read_only(mounted, local):
    path = mounted / "file"
    path.write_bytes(b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    with pytest.raises(PvectlError, match="Read-only"):
        local.write(str(path), b"new", expect=sha(b"old"))
    assert path.read_bytes() == b"old"


def test_a_file_that_is_really_immutable(tmp_path, local):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    if subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        with pytest.raises(PvectlError, match=r"immutable") as caught:
            local.write(str(path), b"new", expect=sha(b"old"))
        assert "lsattr" in caught.value.hint
        assert alone(path)
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)


def test_extended_attributes_are_kept(tmp_path, local):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.pvectl", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    local.write(str(path), b"new", expect=sha(b"old"))
    assert os.getxattr(path, "user.pvectl") == b"1"
