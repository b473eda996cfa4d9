"""Reading: every want has an answer, and what could not be read says why."""

import os
import sys
from pathlib import Path

import pytest

from provision.remote import agent
from provision.remote.session import Want


def states(reads):
    return {read.item.key: read.item.state for read in reads}


def test_files_links_and_folders(rooted, tree):
    tree({"/etc/a": "A", "/etc/b": "B", "/sys/dev/0": "->../../etc"})
    reads = rooted.read(
        [
            Want(kind="file", pattern="/etc/{a,b}"),
            Want(kind="link", pattern="/sys/dev/*"),
            Want(kind="dir", pattern="/etc"),
        ]
    )
    assert [(r.item.kind, r.item.key, r.data) for r in reads] == [
        ("file", "/etc/a", b"A"),
        ("file", "/etc/b", b"B"),
        ("link", "/sys/dev/0", b"../../etc"),
        ("dir", "/etc", b"a\nb\n"),
    ]
    assert all(r.item.state == "read" and r.item.sha256 for r in reads)


def test_metadata_of_files_but_not_of_the_kernels(rooted, tree, root):
    tree({"/etc/a": "A", "/sys/x": "1"})
    (root / "etc/a").chmod(0o640)
    one, other = rooted.read([Want(kind="file", pattern="/{etc/a,sys/x}")])
    assert (one.item.mode, one.item.uid) == (0o640, os.getuid())
    assert one.item.mtime_ns == (root / "etc/a").stat().st_mtime_ns
    assert (other.item.uid, other.item.mtime_ns) == (None, None)


def test_literal_tail_after_a_wildcard_is_absent_where_it_is_absent(rooted, tree):
    tree({"/sys/d/0/vendor": "v", "/sys/d/1/device": "d"})
    assert states(rooted.read([Want(kind="file", pattern="/sys/d/*/{vendor,device}")])) == {
        "/sys/d/0/vendor": "read",
        "/sys/d/1/vendor": "absent",
        "/sys/d/0/device": "absent",
        "/sys/d/1/device": "read",
    }


@pytest.mark.parametrize("pattern", ["/etc/none", "/etc/none/x", "/etc/*.none", "/none/*", "/none/*/x"])
def test_nothing_there_is_recorded_under_the_pattern(rooted, pattern):
    (read,) = rooted.read([Want(kind="file", pattern=pattern)])
    assert (read.item.key, read.item.state, read.data) == (pattern, "absent", b"")


def test_wildcards_pass_over_hidden_files_folders_and_dangling_links(rooted, tree):
    tree({"/etc/x.d/a": "A", "/etc/x.d/.b.swp": "B", "/etc/x.d/sub/c": "C", "/etc/x.d/z": "->/none"})
    assert states(rooted.read([Want(kind="file", pattern="/etc/x.d/*")])) == {"/etc/x.d/a": "read"}
    assert states(rooted.read([Want(kind="link", pattern="/etc/x.d/*")])) == {"/etc/x.d/z": "read"}
    assert states(rooted.read([Want(kind="dir", pattern="/etc/x.d/*")])) == {"/etc/x.d/sub": "read"}


def test_links_are_followed_inside_the_root(rooted, tree):
    tree({"/etc/real": "inside", "/etc/hosts": "->/etc/real"})
    (read,) = rooted.read([Want(kind="file", pattern="/etc/hosts")])
    assert read.data == b"inside"


def test_limit_cuts_and_keeps_the_beginning(rooted, tree):
    tree({"/etc/a": "0123456789", "/etc/b": "01234"})
    long, fits = rooted.read([Want(kind="file", pattern="/etc/{a,b}", limit=5)])
    assert (long.item.state, long.data) == ("truncated", b"01234")
    assert (fits.item.state, fits.data) == ("read", b"01234")


def test_what_is_no_file_is_an_error(rooted, root, tree):
    tree({"/etc/a": "A"})
    os.mkfifo(root / "etc/pipe")
    reads = rooted.read([Want(kind="file", pattern="/etc/pipe"), Want(kind="link", pattern="/etc/a")])
    reads += rooted.read(
        [Want(kind="dir", pattern="/etc/a"), Want(kind="file", pattern="/etc"), Want(kind="file", pattern="x")]
    )
    assert [(r.item.state, r.item.reason) for r in reads] == [
        ("error", "it is not a regular file"),
        ("error", "it is not a symbolic link"),
        ("absent", ""),
        ("error", "it is not a regular file"),
        ("error", "the path is not absolute: 'x'"),
    ]


def test_a_folder_in_the_place_of_a_link_is_no_error(rooted, tree):
    tree({"/sys/00:00.2/iommu/ivhd0/x": "", "/sys/01:00.0/iommu": "->../00:00.2/iommu/ivhd0"})
    reads = rooted.read([Want(kind="link", pattern="/sys/*/iommu")])
    assert [(r.item.state, r.item.reason) for r in reads] == [("absent", "it is a folder"), ("read", "")]


def test_reading_that_fails_midway_keeps_what_came(monkeypatch, root):
    # The extended configuration space of a device that fell off the bus: 256 bytes, then EIO.
    (root / "config").write_bytes(b"c" * 300)
    real = os.read
    parts = iter([256, 0])

    def read(descriptor, count):
        if size := next(parts):
            return real(descriptor, size)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(agent.os, "read", read)
    item, data = agent.read_file(str(root / "config").encode(), "/sys/config", 4096)
    assert (item["state"], item["reason"], len(data)) == ("truncated", "after 256 bytes: Input/output error", 256)


def test_attribute_that_cannot_be_read_at_all(monkeypatch, root):
    def read(descriptor, count):
        raise OSError(22, "Invalid argument")

    (root / "x").write_bytes(b"1")
    monkeypatch.setattr(agent.os, "read", read)
    item, data = agent.read_file(str(root / "x").encode(), "/sys/x", 10)
    assert (item["state"], item["reason"], data) == ("error", "Invalid argument", None)


@pytest.mark.skipif(not Path("/sys/bus/pci").exists(), reason="no PCI")
def test_real_config_space_is_read_to_its_end(local):
    reads = local.read([Want(kind="file", pattern="/sys/bus/pci/devices/*/config")])
    assert all(len(read.data) in (64, 256, 4096) for read in reads if read.item.state == "read")


def test_names_that_are_no_text_do_no_harm(rooted, root):
    (root / "etc").joinpath(os.fsdecode(b"caf\xe9")).write_text("x")
    (read,) = rooted.read([Want(kind="dir", pattern="/etc")])
    assert read.data == b"caf\\xe9\n"


def test_commands(rooted, table):
    table.answers[("pveversion",)] = (0, b"pve-manager/9.0.3\n", b"", False)
    table.answers[("zpool", "status")] = (1, b"", b"no pools\n", False)
    table.answers[("slow",)] = (-9, b"part", b"", True)
    table.answers[("denied",)] = (126, b"", b"Permission denied", False)
    table.answers[("long",)] = (0, b"0123456789", b"", False)
    argvs = [("pveversion",), ("zpool", "status"), ("slow",), ("denied",), ("long",), ("none",)]
    wants = [Want(kind="command", argv=argv, limit=5 if argv == ("long",) else 99) for argv in argvs]
    reads = {read.item.key: read for read in rooted.read(wants)}
    assert (reads["pveversion"].item.state, reads["pveversion"].data) == ("read", b"pve-manager/9.0.3\n")
    zpool = reads["zpool status"].item
    assert (zpool.state, zpool.rc, zpool.stderr, zpool.argv) == ("read", 1, "no pools\n", ("zpool", "status"))
    assert (reads["slow"].item.state, reads["slow"].data) == ("error", b"part")
    assert reads["denied"].item.state == "denied"
    assert (reads["long"].item.state, reads["long"].data) == ("truncated", b"01234")
    assert reads["none"].item.state == "absent"
    assert {env["LC_ALL"] for _, _, _, env in table.calls} == {"C"}


def test_what_the_deadline_leaves_no_time_for_is_not_asked(rooted, table, tree):
    tree({"/etc/a": "A"})
    reads = rooted.read([Want(kind="file", pattern="/etc/a"), Want(kind="command", argv=("x",))], deadline=0.0)
    assert [read.item.state for read in reads] == ["not_asked", "not_asked"]
    assert not table.calls


def test_ssh_connection_is_told(root):
    environ = {"SSH_CONNECTION": "10.0.0.2 5000 10.0.0.1 22"}
    one = agent.Agent(str(root), agent.run_child, environ, 0)
    wants = [Want(kind="command", key="ssh-connection").model_dump(), Want(kind="command", key="other").model_dump()]
    (item, data), (other, _) = one.read({"wants": wants})
    assert (item["state"], data) == ("read", b"10.0.0.2 5000 10.0.0.1 22")
    assert other["state"] == "error"
    nowhere = agent.Agent(str(root), agent.run_child, {}, 0)
    ((item, data),) = nowhere.read({"wants": wants[:1]})
    assert (item["state"], data) == ("absent", None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_ssh_connection_is_found_above_sudo(monkeypatch):
    import subprocess

    folder = str(Path(agent.__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import agent; print(agent.ancestor_connection())"
    inner = [sys.executable, "-c", code]
    outer = f"import subprocess; subprocess.run({inner!r}, env={{}}, check=True)"
    env = {"SSH_CONNECTION": "a 1 b 22"}
    done = subprocess.run(
        [sys.executable, "-c", outer], env=env, capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "a 1 b 22\n"


def test_a_thousand_functions_are_no_burden(rooted, tree):
    tree({f"/sys/d/{number:04}/{name}": name for number in range(300) for name in ("vendor", "device", "class")})
    reads = rooted.read([Want(kind="file", pattern="/sys/d/*/{vendor,device,class,config}")])
    assert len(reads) == 1200
