"""Paths inside a lab's root folder.

Every path of the simulated host is resolved below the root: ``..`` stops there and an absolute
link target means the root, as ``openat2(RESOLVE_IN_ROOT)`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MAX_LINKS = 40


class Rootfs:
    """The folder that is ``/`` of one simulated machine."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def at(self, path: str, *, follow: bool = True) -> Path:
        """Return the real place of ``path``; a link in last position is kept when ``follow`` is false.

        Raises ``OSError`` (ELOOP) for a loop of links.
        """
        parts = [part for part in path.split("/") if part]
        done: list[str] = []
        links = 0
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done[:-1]
                continue
            here = self.root.joinpath(*done, part)
            if not here.is_symlink() or (not follow and not parts):
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(40, "Too many levels of symbolic links", path)
            target = str(here.readlink())
            if target.startswith("/"):
                done = []
            parts = [piece for piece in target.split("/") if piece] + parts
        return self.root.joinpath(*done)

    def exists(self, path: str) -> bool:
        return self.at(path).exists()

    def read(self, path: str) -> str | None:
        """Return the text of a file, ``None`` where there is none."""
        place = self.at(path)
        return place.read_text(encoding="utf-8", errors="surrogateescape") if place.is_file() else None

    def write(self, path: str, text: str, *, mode: int | None = None) -> None:
        """Replace a file atomically; its mode is kept where none is given."""
        place = self.at(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode is None:
            mode = place.stat().st_mode & 0o7777 if place.exists() else 0o644
        temporary = place.with_name(f".{place.name}.lab-new")
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
        temporary.chmod(mode)
        temporary.replace(place)

    def remove(self, path: str) -> None:
        self.at(path, follow=False).unlink(missing_ok=True)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder, none where it does not exist."""
        place = self.at(path)
        return sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []

    def link(self, path: str) -> str | None:
        """Return the target of a link, ``None`` where there is no link."""
        place = self.at(path, follow=False)
        return str(place.readlink()) if place.is_symlink() else None

    def files(self, path: str) -> Iterator[tuple[str, Path]]:
        """Yield relative name and place of every plain file below a folder."""
        top = self.at(path)
        for place in sorted(top.rglob("*")):
            if place.is_file():
                yield str(place.relative_to(top)), place
