"""Captures as files: whole or not at all, checked when they come back."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.capture import store
from provision.capture.model import Capture, Item, Manifest
from provision.errors import CaptureError


def capture(*contents: bytes) -> Capture:
    items = [
        Item(subject="host", key=f"/etc/{number}", kind="file", state="read", sha256=hashlib.sha256(data).hexdigest())
        for number, data in enumerate(contents)
    ]
    items.append(Item(subject="host", key="qm list", kind="command", state="absent", argv=("qm", "list"), rc=127))
    blobs = {hashlib.sha256(data).hexdigest(): data for data in contents}
    return Capture(Manifest(target="root@pve1", created="2026-01-01T00:00:00Z", notes=("ä",)), tuple(items), blobs)


SAMPLE = capture(b"one\n", b"two\xff\0", b"", b"one\n")


@pytest.fixture(params=["c.tar.gz", "c.tgz", "c"])
def path(request, tmp_path):
    return tmp_path / request.param


def test_what_was_saved_comes_back(path):
    store.save(SAMPLE, path)
    assert store.load(path) == SAMPLE
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o077 == 0


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_round_trip(tmp_path_factory, contents):
    path = tmp_path_factory.mktemp("capture") / "c.tar.gz"
    store.save(capture(*contents), path)
    assert store.load(path) == capture(*contents)


def test_the_same_capture_gives_the_same_bytes(tmp_path):
    store.save(SAMPLE, tmp_path / "a.tar.gz")
    store.save(Capture(SAMPLE.manifest, SAMPLE.items, dict(reversed(SAMPLE.blobs.items()))), tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_archive_and_folder_hold_the_same(tmp_path):
    store.save(SAMPLE, tmp_path / "a.tar.gz")
    store.save(SAMPLE, tmp_path / "a")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}
    files = {
        str(file.relative_to(tmp_path / "a")): file.read_bytes()
        for file in (tmp_path / "a").rglob("*")
        if file.is_file()
    }
    assert members == files
    manifest = json.loads(members["manifest.json"])
    assert (manifest["schema"], manifest["created"], manifest["data"]["items"]) == (
        "pvectl.capture/1",
        "2026-01-01T00:00:00Z",
        5,
    )


def test_an_archive_is_replaced_and_a_folder_is_not(tmp_path):
    store.save(capture(b"old"), tmp_path / "a.tar.gz")
    store.save(SAMPLE, tmp_path / "a.tar.gz")
    assert store.load(tmp_path / "a.tar.gz") == SAMPLE
    store.save(SAMPLE, tmp_path / "a")
    with pytest.raises(CaptureError, match="exists already"):
        store.save(SAMPLE, tmp_path / "a")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.tar.gz"
    store.save(SAMPLE, path)

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", fail)
    for name in ("a.tar.gz", "b"):
        with pytest.raises(CaptureError, match="No space left"):
            store.save(capture(b"new"), tmp_path / name)
    assert store.load(path) == SAMPLE
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar.gz"]


def test_no_such_folder(tmp_path):
    with pytest.raises(CaptureError, match="Unable to write"):
        store.save(SAMPLE, tmp_path / "none/a.tar.gz")


# reading


def refused(path: Path) -> str:
    with pytest.raises(CaptureError) as caught:
        store.load(path)
    assert caught.value.message.startswith(f"Unable to read {path}: ")
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("name", ["a.tar.gz", "a", "plain.txt"])
def test_nothing_there(tmp_path, name):
    assert "no such file" in refused(tmp_path / name)


@pytest.mark.parametrize(
    "content",
    [b"", b"lspci output\n" * 100, gzip.compress(b"no archive\n" * 100), gzip.compress(b"")],
    ids=["empty", "text", "gzip of text", "gzip of nothing"],
)
def test_something_else(tmp_path, content):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    message = refused(path)
    assert "not a capture" in message or "cut" in message


def test_every_cut_is_noticed(tmp_path):
    path = tmp_path / "a.tar.gz"
    store.save(SAMPLE, path)
    whole = path.read_bytes()
    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        message = refused(path)
        assert "cut" in message or "not a capture" in message
    path.write_bytes(whole[:-1])
    assert "cut" in refused(path)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "a.tar.gz"
    store.save(SAMPLE, path)
    whole = bytearray(path.read_bytes())
    for at in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        try:
            assert store.load(path) == SAMPLE  # a byte of the gzip header that means nothing
        except CaptureError:
            continue


def repack(path: Path, change) -> None:
    """Write the sample with its members changed by ``change(dict)``."""
    members = dict(store._members(SAMPLE))
    change(members)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(packed.getvalue())


def set_schema(number: str):
    def change(members):
        members["manifest.json"] = members["manifest.json"].replace(
            b"pvectl.capture/1", f"pvectl.capture/{number}".encode()
        )

    return change


FIRST = "blobs/" + hashlib.sha256(b"one\n").hexdigest()


def test_people_may_pack_it_again_themselves(tmp_path):
    path = tmp_path / "a.tar.gz"
    repack(path, lambda members: [members.__setitem__(f"./{name}", members.pop(name)) for name in list(members)])
    assert store.load(path) == SAMPLE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_schema("2"), "newer than pvectl"),
        (set_schema("x"), "no version number"),
        (lambda m: m.update({"manifest.json": b"{}"}), "not a pvectl capture"),
        (lambda m: m.update({"manifest.json": b"{"}), "no JSON"),
        (lambda m: m.pop("manifest.json"), "no manifest.json"),
        (lambda m: m.pop("index.jsonl"), "index.jsonl is missing"),
        (lambda m: m.update({"index.jsonl": m["index.jsonl"][:-5]}), "not what the manifest says"),
        (lambda m: m.pop(FIRST), "the content of file /etc/0 is missing"),
        (lambda m: m.update({FIRST: b"other"}), "other bytes than its name says"),
        (lambda m: m.update({"../evil": b"x"}), "'../evil', which no capture has"),
        (lambda m: m.update({"/etc/passwd": b"x"}), "which no capture has"),
        (lambda m: m.update({"blobs/../../evil": b"x"}), "which no capture has"),
        (lambda m: m.update({FIRST: "/etc/passwd"}), "which no capture has"),
    ],
)
def test_damage_is_named(tmp_path, change, says):
    path = tmp_path / "a.tar.gz"
    repack(path, change)
    assert says in refused(path)


def test_values_that_do_not_fit_are_named(tmp_path):
    def change(members):
        members["index.jsonl"] = members["index.jsonl"].replace(b'"state":"read"', b'"state":"perhaps"')
        document = json.loads(members["manifest.json"])
        document["data"]["index_sha256"] = hashlib.sha256(members["index.jsonl"]).hexdigest()
        members["manifest.json"] = json.dumps(document).encode()

    repack(tmp_path / "a.tar.gz", change)
    assert "state" in refused(tmp_path / "a.tar.gz")


def test_archives_made_to_fill_a_disk_are_refused(tmp_path, monkeypatch):
    store.save(SAMPLE, tmp_path / "a.tar.gz")
    monkeypatch.setattr(store, "SIZE_LIMIT", 100)
    assert "larger than 100 bytes" in refused(tmp_path / "a.tar.gz")


def test_a_link_in_a_folder_is_refused(tmp_path):
    store.save(SAMPLE, tmp_path / "a")
    (tmp_path / "a" / FIRST).unlink()
    (tmp_path / "a" / FIRST).symlink_to("/etc/passwd")
    assert "not a regular file" in refused(tmp_path / "a")
