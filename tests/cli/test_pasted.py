"""What people hand over is opened, whatever it is packed in and however it is encoded."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.capture.model import Capture, Manifest
from provision.capture.store import save
from provision.cli import pasted
from provision.cli.app import run
from provision.cli.handed_over import hand_over
from provision.cli.pasted import Pasted, encoding_of, open_all
from provision.errors import CaptureError, Undecided, UsageError
from provision.readers.kinds import LOOKED_FOR

PASTES = Path(__file__).parents[1] / "data" / "pastes"
LOG = "[  1.5] vfio-pci 0000:41:00.0: not ready 1023ms after FLR; waiting\n"


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def opened(*paths: Path) -> list[Pasted]:
    return list(open_all(paths))


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"),
     ("utf-16-le", b""), ("utf-16-be", b""), ("cp1252", b"")],
)  # fmt: skip
def test_every_encoding_gives_the_same_text(tmp_path: Path, encoding: str, mark: bytes) -> None:
    text = text_of("modprobe") + "# überflüssig\n"
    (tmp_path / "x.txt").write_bytes(mark + text.encode(encoding))
    (one,) = opened(tmp_path / "x.txt")
    assert (one.kind, one.text) == ("text", text)


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01" + b"\x00" * 500, bytes(range(256)) * 40])
def test_a_binary_file_is_named_and_not_used(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.bin").write_bytes(data)
    (one,) = opened(tmp_path / "x.bin")
    assert (one.kind, one.why) == ("not used", "it is binary")
    assert encoding_of(data) is None


def in_tar(names: dict[str, bytes], path: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in names.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def in_zip(names: dict[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("form", ["w:", "w:gz", "w:xz", "w:bz2", "zip"])
def test_an_archive_gives_its_members(tmp_path: Path, form: str) -> None:
    names = {"logs/dmesg": LOG.encode(), "etc/modprobe.d/vfio.conf": b"options vfio-pci ids=10de:2bb5\n"}
    path = tmp_path / "bundle"
    path = in_zip(names, path) if form == "zip" else in_tar(names, path, form)
    found = {one.name.rsplit(":", 1)[1]: one for one in opened(path)}
    assert {name: one.text.encode() for name, one in found.items()} == names


def test_a_file_in_gzip_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "kern.log.2.gz").write_bytes(gzip.compress(LOG.encode()))
    (one,) = opened(tmp_path / "kern.log.2.gz")
    assert (one.kind, one.text) == ("text", LOG)


def test_a_folder_is_read_to_its_depth_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/c/y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(LOG)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [one.name for one in opened(tmp_path)] == [
        str(tmp_path / name) for name in ("a/c/y.txt", "a/z.txt", "b.txt")
    ]


def test_an_archive_of_captures_is_no_way_out(tmp_path: Path) -> None:
    path = in_tar({"../../evil.txt": LOG.encode()}, tmp_path / "x.tar", "w:")
    (one,) = opened(path)
    assert one.text == LOG
    assert sorted(file.name for file in tmp_path.parent.iterdir() if file.name == "evil.txt") == []


def test_an_archive_that_is_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "TOTAL_LIMIT", 1000)
    names = {"a": b"x" * 400, "b": b"y" * 400, "c": b"z" * 400}
    for path in (in_tar(names, tmp_path / "t", "w:gz"), in_zip(names, tmp_path / "z")):
        assert [one.kind for one in opened(path)] == ["text", "text", "not used"]


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
def test_an_archive_that_was_cut_says_so(tmp_path: Path, kept: float) -> None:
    names = {str(number): random.Random(number).randbytes(2000).hex().encode() for number in range(20)}
    for path in (in_tar(names, tmp_path / "t", "w:gz"), in_zip(names, tmp_path / "z")):
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
        assert any(one.kind == "not used" for one in opened(path))


def test_a_long_log_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "TEXT_LIMIT", 20_000)
    last = "[ 99.5] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.\n"
    (tmp_path / "dmesg.txt").write_text(LOG * 2000 + last)
    given = hand_over([tmp_path / "dmesg.txt"])
    (document,) = given.documents
    assert document.kind == "kernel-log"
    assert any("fallen off the bus" in record.text for record in document.reading.records)


def test_the_beginning_of_another_long_text_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "TEXT_LIMIT", 20_000)
    (tmp_path / "modprobe.txt").write_text(text_of("modprobe") * 500)
    given = hand_over([tmp_path / "modprobe.txt"])
    assert [document.kind for document in given.documents] == ["modprobe"]
    assert any("only its beginning was read" in note for note in given.notes)


def test_a_pipe_with_a_name_is_read_once_from_its_beginning(tmp_path: Path) -> None:
    pipe = tmp_path / "63"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"GRUB_CMDLINE_LINUX_DEFAULT=quiet\n" * 1000,))
    writer.start()
    (found,) = open_all([pipe])
    writer.join()
    assert (found.kind, found.name) == ("text", str(pipe))
    assert len(found.text.splitlines()) == 1000


def test_a_stream_without_end_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "TOTAL_LIMIT", 1 << 20)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"quiet\n" * (1 << 19))))
    cut, found = open_all([pasted.STDIN])
    assert (cut.kind, cut.why) == ("not used", "what comes after 1 MiB was not read")
    assert found.kind == "text"


def test_several_texts_are_one_host() -> None:
    given = hand_over([PASTES / "pci-listing.txt", PASTES / "vm-config.txt", PASTES / "mixed-post.txt"])
    assert len(given.model.gpus()) == 2
    assert given.model.proxmox.vms
    assert any("not used" in note and "Hi all" in note for note in given.notes)
    assert any(note.endswith("a VM's configuration (its file, or qm config)") for note in given.notes)


def capture_at(path: Path) -> Path:
    save(Capture(Manifest(target="root@alpha", hostname="alpha", created="2026-01-05T00:00:00Z"), (), {}), path)
    return path


@pytest.mark.parametrize("name", ["alpha.tar.gz", "alpha.dat.tgz", "alpha"])
def test_a_capture_goes_with_other_texts(tmp_path: Path, name: str) -> None:
    given = hand_over([capture_at(tmp_path / name), PASTES / "nvidia-smi-query.txt"])
    assert given.capture is not None
    assert [document.kind for document in given.documents] == ["nvidia-smi-query"]
    assert given.name.startswith("alpha (")


def test_two_captures_are_two_hosts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at once"):
        hand_over([capture_at(tmp_path / "one.tar.gz"), capture_at(tmp_path / "two.tar.gz")])


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        hand_over([tmp_path / "none.txt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="holds no file"):
        hand_over([tmp_path / "empty"])


@pytest.mark.parametrize("text", ["", "hello there\n", "\n\n"])
def test_unknown_text_says_what_was_looked_for(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.txt").write_text(text)
    with pytest.raises(Undecided) as raised:
        hand_over([tmp_path / "note.txt"])
    assert all(f"  {title}" in raised.value.problems for title in LOOKED_FOR)
    assert len(str(raised.value)) < 200
    assert "pvectl capture" in raised.value.hint


# the verb


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def put(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return put


def test_doctor_reads_standard_input(stdin: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    stdin(text_of("kernel-log"))
    assert run(["doctor", "-", "--output", "json"]) in (0, 3)
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "pvectl.finding/1"
    assert "-: a kernel log" in err


def test_doctor_says_what_each_file_was_taken_for(capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(PASTES / f"{name}.txt") for name in ("modprobe", "grub-default", "topo-p2p")]
    assert run(["doctor", "--from", *names, "--fail-on", "never"]) == 0
    err = capsys.readouterr().err
    assert [line.rsplit(": ", 1)[0].rsplit("/", 1)[-1] for line in err.splitlines()[:2]] == [
        "modprobe.txt",
        "grub-default.txt",
    ]
    assert "nvidia-smi topo -p2p" in err


def test_doctor_on_unknown_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("nothing\n")
    assert run(["doctor", "--from", str(tmp_path / "x.txt")]) == 8
    err = capsys.readouterr().err
    assert "looked for" in err
    assert "lspci in any form" in err


def test_doctor_reads_one_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "root@alpha", "root@beta"]) == 64
    assert "--from" in capsys.readouterr().err


@pytest.mark.parametrize("name", [path.stem for path in sorted(PASTES.glob("*.txt"))])
def test_doctor_takes_every_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--from", str(PASTES / f"{name}.txt"), "--fail-on", "never"]) == 0
    assert "bug in pvectl" not in capsys.readouterr().out


def test_topo_opens_the_same_things(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = b"\xff\xfe" + text_of("pci-listing").encode("utf-16-le")
    path = in_tar({"lspci.txt": data}, tmp_path / "x.tar", "w:")
    assert run(["topo", "--from", str(path)]) == 0
    assert "41:00.0" in capsys.readouterr().out
