"""Files that people hand over, opened: folders, archives, standard input, any encoding, bounded in size."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple

from provision.errors import CaptureError

STDIN = Path("-")
TEXT_LIMIT = 16 * 1024 * 1024
"""Bytes of one text that are held; a longer one is read line by line where its reader can, else cut here."""
TOTAL_LIMIT = 512 * 1024 * 1024
"""Bytes of all members of one archive, unpacked."""
MOST_FILES = 10_000
"""Files of one folder or archive."""
_HEAD = 8192
_CONTROL = bytes({*range(1, 32)} - set(b"\a\b\t\n\f\r\x1b"))
"""Bytes that no text has, beside those of terminals."""
_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_CAPTURE_SUFFIXES = (".tar.gz", ".tgz")
"""A file of such a name that is no archive was meant to be a capture: its loader says what is wrong with it."""
_PACKED_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz", ".tbz2")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Pasted(NamedTuple):
    """One file, as far as it could be opened."""

    name: str
    """As the user named it; a member of an archive is ``ARCHIVE:MEMBER``."""
    kind: Literal["capture", "text", "long", "not used"]
    """``long``: only the beginning is in ``text``, ``path`` has the rest."""
    text: str = ""
    path: Path | None = None
    """Of a capture or of a long file."""
    why: str = ""
    """Why it was not used."""
    encoding: str = "utf-8"


def open_all(paths: Sequence[Path]) -> Iterator[Pasted]:
    """Yield every file below ``paths``.  Raises CaptureError where a path itself cannot be read."""
    for path in paths:
        if path == STDIN:
            yield from _stream("-", sys.stdin.buffer)
        elif path.is_dir():
            yield from _folder(path)
        else:
            try:
                yield from _named(path)
            except OSError as error:
                raise CaptureError(
                    f"Unable to read {path}: {error.strerror or error}", "check the path and its permissions"
                ) from error


def _named(path: Path) -> Iterator[Pasted]:
    """What a shell names in ``<(command)`` is a pipe: it can be read once, from its beginning."""
    if not path.exists() or path.is_file():
        yield from _file(str(path), path)
        return
    with path.open("rb") as pipe:
        yield from _stream(str(path), pipe)


def _stream(name: str, stream: IO[bytes]) -> Iterator[Pasted]:
    """A stream goes through a file of no name: it may be an archive, and it may be long."""
    with tempfile.NamedTemporaryFile(prefix="pvectl-", suffix=".stream") as spool:
        while spool.tell() < TOTAL_LIMIT and (chunk := stream.read(1 << 20)):
            spool.write(chunk)
        if spool.tell() >= TOTAL_LIMIT:
            yield Pasted(name, "not used", why=f"what comes after {TOTAL_LIMIT >> 20} MiB was not read")
        spool.flush()
        yield from _file(name, Path(spool.name))


def _folder(path: Path) -> Iterator[Pasted]:
    if (path / "manifest.json").is_file() and (path / "index.jsonl").is_file():
        yield Pasted(str(path), "capture", path=path)
        return
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    if not files:
        raise CaptureError(f"Unable to read {path}: the folder holds no file", "give a folder with files, or a capture")
    for file in files[:MOST_FILES]:
        try:
            yield from _file(str(file), file)
        except OSError as error:
            yield Pasted(str(file), "not used", why=error.strerror or str(error))
    if len(files) > MOST_FILES:
        yield Pasted(str(path), "not used", why=f"it holds {len(files)} files; read the first {MOST_FILES}")


def _file(name: str, path: Path) -> Iterator[Pasted]:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(_ZIP):
        yield from _zip(name, path)
    elif head.startswith(_GZIP) or tarfile.is_tarfile(path) or name.endswith(_PACKED_SUFFIXES):
        yield from _packed(name, path)
    else:
        with path.open("rb") as file:
            yield _plain(name, file, path)


def _packed(name: str, path: Path) -> Iterator[Pasted]:
    """A capture, an archive of texts, or one text in gzip."""
    try:
        with tarfile.open(path) as archive:
            first = archive.next()
            if first is not None and first.name.removeprefix("./") == "manifest.json":
                yield Pasted(name, "capture", path=path)
                return
            yield from _members(name, archive)
    except tarfile.ReadError:
        yield Pasted(name, "capture", path=path) if name.endswith(_CAPTURE_SUFFIXES) else _gzipped(name, path)
    except (EOFError, zlib.error, tarfile.TarError) as error:
        yield Pasted(name, "not used", why=f"the archive was cut or is damaged ({error})")


def _members(name: str, archive: tarfile.TarFile) -> Iterator[Pasted]:
    """In the order of the archive: going back in a packed stream would unpack it again."""
    room = TOTAL_LIMIT
    for number, member in enumerate(archive):
        room -= member.size
        if room < 0 or number >= MOST_FILES:
            why = f"the archive holds more than {TOTAL_LIMIT} bytes or {MOST_FILES} files"
            yield Pasted(f"{name}:{member.name}", "not used", why=why)
            return
        stream = archive.extractfile(member) if member.isreg() else None
        if stream is not None:
            yield _plain(f"{name}:{member.name}", stream)


def _gzipped(name: str, path: Path) -> Pasted:
    try:
        with gzip.open(path) as stream:
            return _plain(name, stream)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return Pasted(name, "not used", why="it was cut or is damaged: copy it again")


def _zip(name: str, path: Path) -> Iterator[Pasted]:
    try:
        with zipfile.ZipFile(path) as archive:
            room = TOTAL_LIMIT
            for member in sorted(archive.infolist(), key=lambda one: one.filename)[:MOST_FILES]:
                room -= member.file_size
                if member.is_dir():
                    continue
                if room < 0 or member.flag_bits & 1:
                    why = "it is encrypted" if room >= 0 else f"the archive holds more than {TOTAL_LIMIT} bytes"
                    yield Pasted(f"{name}:{member.filename}", "not used", why=why)
                    continue
                with archive.open(member) as stream:
                    yield _plain(f"{name}:{member.filename}", stream)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        yield Pasted(name, "not used", why=f"the archive was cut or is damaged ({error})")


def _plain(name: str, stream: IO[bytes] | gzip.GzipFile, path: Path | None = None) -> Pasted:
    """Read one text; ``path`` where the rest of a long one can be read again."""
    data = stream.read(TEXT_LIMIT + 1)
    encoding = encoding_of(data[:_HEAD])
    if encoding is None:
        return Pasted(name, "not used", why="it is binary")
    is_long = len(data) > TEXT_LIMIT
    text = _decoded(data[:TEXT_LIMIT], encoding)
    return Pasted(name, "long" if is_long else "text", text, path=path if is_long else None, encoding=encoding)


def encoding_of(head: bytes) -> str | None:
    """Return the encoding of a text by its first bytes, ``None`` for what is no text.

    What Windows saves is UTF-16 with a mark; without a mark every second byte of plain words is zero.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    zeros = head.count(0)
    if not zeros:
        return None if sum(map(head.count, _CONTROL)) * 20 > len(head) else "utf-8"
    pairs = len(head) // 2
    if pairs > 8 and zeros >= pairs * 0.9:
        little, big = head[1::2].count(0), head[0::2].count(0)
        if max(little, big) >= pairs * 0.9 and min(little, big) <= pairs * 0.1:
            return "utf-16-le" if little > big else "utf-16-be"
    few = zeros + sum(map(head.count, _CONTROL)) <= len(head) // 100
    return "utf-8" if few else None


def _decoded(data: bytes, encoding: str) -> str:
    """Decode; bytes that are no UTF-8 are what Windows and old terminals write for letters of the west."""
    if encoding != "utf-8":
        return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.start >= len(data) - 3 or len(data) >= TEXT_LIMIT
        return data.decode("utf-8" if is_cut else "cp1252", "replace")


def lines_of(pasted: Pasted) -> Iterator[str]:
    """Yield the lines of a long text one at a time; a line is cut at 64 KiB, so memory is bounded."""
    if pasted.path is None:
        yield from io.StringIO(pasted.text)
        return
    with pasted.path.open(encoding=pasted.encoding, errors="replace") as file:
        while line := file.readline(1 << 16):
            yield line.rstrip("\n")
