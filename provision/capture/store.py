"""Captures as files: a ``.tar.gz`` or a folder of the same shape.

``manifest.json`` (the envelope, kind capture), ``index.jsonl`` (one item a line) and ``blobs/<sha256>``.  The same
capture always gives the same bytes.  Whatever is read back is checked: the schema, the digest of the index and of
every blob, and that a name leads nowhere else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from provision.capture.model import Capture, Item, Manifest
from provision.envelope import dumps, unwrap, wrap
from provision.errors import CaptureError

MANIFEST = "manifest.json"
INDEX = "index.jsonl"
BLOB = re.compile(r"blobs/([0-9a-f]{64})")
SIZE_LIMIT = 512 * 1024 * 1024
"""Bytes of a capture after unpacking: a guard against archives that are made to fill a disk."""


def save(capture: Capture, path: Path) -> None:
    """Write ``capture`` to ``path``: an archive where the name ends in ``.tar.gz`` or ``.tgz``, else a folder.

    It appears whole or not at all.  An archive is replaced, a folder must not exist yet.  Raises CaptureError.
    """
    members = dict(_members(capture))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.pvectl")
    try:
        if is_archive(path):
            _write_file(temporary, _archive(members))
        else:
            if path.exists():
                _refuse_write(path, "it exists already", "choose a name that does not exist")
            _write_folder(temporary, members)
        temporary.rename(path)
        _sync(path.parent)
    except OSError as error:
        _refuse_write(path, error.strerror or str(error), "choose a folder that you may write to and that has room")
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def load(path: Path) -> Capture:
    """Read a capture.  Raises CaptureError: not there, not a capture, cut, damaged or of a newer version."""
    members = _read_folder(path) if path.is_dir() else _read_archive(path)
    if MANIFEST not in members:
        _refuse(path, "it is not a capture: it has no manifest.json", "give a file written by pvectl capture")
    try:
        document = json.loads(members[MANIFEST])
    except ValueError:
        _damaged(path, "manifest.json is no JSON")
    data = unwrap(document, "capture", source=str(path), error=CaptureError)
    if INDEX not in members:
        _damaged(path, "index.jsonl is missing")
    if not isinstance(data, dict) or hashlib.sha256(members[INDEX]).hexdigest() != data.get("index_sha256"):
        _damaged(path, "index.jsonl is not what the manifest says")
    try:
        manifest = Manifest.model_validate(data.get("manifest"))
        items = tuple(Item.model_validate_json(line) for line in members[INDEX].splitlines())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    blobs = _blobs(path, members)
    for item in items:
        if item.sha256 is not None and item.sha256 not in blobs:
            _damaged(path, f"the content of {item.kind} {item.key} is missing")
    return Capture(manifest, items, blobs)


def is_archive(path: Path) -> bool:
    return path.name.endswith((".tar.gz", ".tgz"))


# writing


def _members(capture: Capture) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents in the order of the archive: what says most comes first."""
    lines = (item.model_dump_json(exclude_defaults=True) + "\n" for item in capture.items)
    index = "".join(lines).encode()
    data: dict[str, Any] = {
        "manifest": capture.manifest.model_dump(mode="json"),
        "items": len(capture.items),
        "index_sha256": hashlib.sha256(index).hexdigest(),
    }
    yield MANIFEST, dumps(wrap("capture", data, created=capture.manifest.created)).encode()
    yield INDEX, index
    used = {item.sha256 for item in capture.items}
    for digest in sorted(capture.blobs):
        if digest in used:
            yield f"blobs/{digest}", capture.blobs[digest]


def _archive(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)


def _write_file(path: Path, data: bytes) -> None:
    """A capture holds serial numbers and addresses: nobody else may read it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _write_folder(path: Path, members: Mapping[str, bytes]) -> None:
    path.mkdir(mode=0o700)
    (path / "blobs").mkdir(mode=0o700)
    for name, data in members.items():
        _write_file(path / name, data)
    _sync(path / "blobs")
    _sync(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# reading


def _read_archive(path: Path) -> dict[str, bytes]:
    try:
        return _unpack(path)
    except FileNotFoundError:
        _refuse(path, "there is no such file", "give a file written by pvectl capture")
    except (EOFError, zlib.error):
        _damaged(path, "the archive was cut or is damaged")
    except (tarfile.ReadError, gzip.BadGzipFile) as error:
        cut = "unexpected end" in str(error) or "CRC" in str(error) or "Incorrect length" in str(error)
        if cut:
            _damaged(path, "the archive was cut or is damaged")
        _refuse(path, "it is not a capture: it is no .tar.gz", "give a file written by pvectl capture")
    except tarfile.TarError as error:
        _damaged(path, str(error))
    except OSError as error:
        _refuse(path, error.strerror or str(error), "check the file and its rights")


def _unpack(path: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    room = SIZE_LIMIT
    with gzip.open(path) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for entry in archive:
            name = entry.name.removeprefix("./")
            if entry.isdir() and name.rstrip("/") in ("", ".", "blobs"):
                continue
            if not entry.isreg() or not _is_ours(name):
                _refuse(
                    path, f"it holds {entry.name!r}, which no capture has", "do not use it: it was not made by pvectl"
                )
            room -= entry.size
            if room < 0:
                _refuse(path, f"it is larger than {SIZE_LIMIT} bytes", "do not use it: it was not made by pvectl")
            stream = archive.extractfile(entry)
            data = stream.read() if stream is not None else b""
            if len(data) != entry.size:
                raise EOFError
            members[name] = data
        while plain.read(1 << 20):  # the check sum of the archive stands at its end
            pass
    return members


def _read_folder(path: Path) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    try:
        for file in (path / MANIFEST, path / INDEX, *sorted((path / "blobs").glob("*"))):
            name = str(file.relative_to(path))
            if not file.exists() or not _is_ours(name):
                continue
            if file.is_symlink() or not file.is_file():
                _refuse(path, f"{name} is not a regular file", "do not use it: it was not made by pvectl")
            members[name] = file.read_bytes()
    except OSError as error:
        _refuse(path, f"{error.filename}: {error.strerror}", "check the folder and its rights")
    return members


def _is_ours(name: str) -> bool:
    return name in (MANIFEST, INDEX) or BLOB.fullmatch(name) is not None


def _blobs(path: Path, members: Mapping[str, bytes]) -> dict[str, bytes]:
    blobs = {}
    for name, data in members.items():
        match = BLOB.fullmatch(name)
        if match is None:
            continue
        if hashlib.sha256(data).hexdigest() != match[1]:
            _damaged(path, f"{name} has other bytes than its name says")
        blobs[match[1]] = data
    return blobs


def _damaged(path: Path, cause: str) -> NoReturn:
    _refuse(path, cause, "copy the file again, or take a new capture")


def _refuse(path: Path, cause: str, advice: str) -> NoReturn:
    raise CaptureError(f"Unable to read {path}: {cause}", advice)


def _refuse_write(path: Path, cause: str, advice: str) -> NoReturn:
    raise CaptureError(f"Unable to write {path}: {cause}", advice)
