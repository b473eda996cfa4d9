"""GRUB's defaults: which command line they give, in which file each token stands, and edits of one token.

``update-grub`` sources ``/etc/default/grub`` and then ``/etc/default/grub.d/*.cfg`` in the order of their
names, and writes ``$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT`` behind the root device of each normal entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from provision.boot.cmdline import SPACES, Cmdline, Token
from provision.boot.shell_assignments import Assignment, Char, Expansion, Opaque, Statement, statements
from provision.evidence import Maybe, Unknown

DEFAULT_FILE = "/etc/default/grub"
SNIPPET_FOLDER = "/etc/default/grub.d/"
SNIPPET_FILE = SNIPPET_FOLDER + "60-pvectl.cfg"
GENERATED_FILE = "/boot/grub/grub.cfg"

Variable = Literal["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"]
VARIABLES: tuple[Variable, ...] = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_SOURCES = re.compile(r"(?:^|[\s;&|({])(?:\.|source|eval)[ \t]")


@dataclass(frozen=True)
class Placed:
    """One character of a value, where it stands."""

    char: str
    path: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class PlacedToken:
    """One token of the effective command line and the characters that make it."""

    token: Token
    variable: Variable
    chars: tuple[Placed, ...]
    before: tuple[Placed, ...]
    """White space before it, up to the token that precedes it."""
    after: tuple[Placed, ...]

    @property
    def path(self) -> str | None:
        """The file that holds the token, ``None`` where it is put together from several."""
        paths = {c.path for c in self.chars}
        return paths.pop() if len(paths) == 1 else None

    @property
    def line(self) -> int:
        return self.chars[0].line


@dataclass(frozen=True)
class GrubDefaults:
    """``/etc/default/grub`` and its snippets, by path."""

    files: Mapping[str, str]

    @property
    def order(self) -> tuple[str, ...]:
        """Paths in the order in which update-grub reads them."""
        snippets = sorted(p for p in self.files if is_snippet(p))
        return (*((DEFAULT_FILE,) if DEFAULT_FILE in self.files else ()), *snippets)

    def tokens(self) -> Maybe[tuple[PlacedToken, ...]]:
        """Every token of the effective command line in order, or Unknown where only a shell could tell."""
        values = self._evaluate()
        found: list[PlacedToken] = []
        for variable in VARIABLES:
            value = values.get(variable, ())
            if isinstance(value, Unknown):
                return value
            found.extend(_split(value, variable))
        return tuple(found)

    def cmdline(self) -> Maybe[Cmdline]:
        """What these files make update-grub write behind the root device."""
        tokens = self.tokens()
        if isinstance(tokens, Unknown):
            return tokens
        return Cmdline.parse(" ".join(t.token.raw for t in tokens))

    def visible(self) -> tuple[PlacedToken, ...]:
        """Every token that plain assignments give, whatever only a shell could add: for remarks, never for edits."""
        values = self._evaluate(plain=True)
        return tuple(
            token
            for variable in VARIABLES
            if not isinstance(value := values.get(variable, ()), Unknown)
            for token in _split(value, variable)
        )

    def lost(self) -> Maybe[tuple[PlacedToken, ...]]:
        """Tokens that stand in an assignment and not on the effective command line: a later one overwrites it."""
        effective = self.tokens()
        if isinstance(effective, Unknown):
            return effective
        used = {(c.path, c.start) for t in effective for c in t.chars}
        return tuple(t for t in self._assigned() if not any((c.path, c.start) in used for c in t.chars))

    def opaque(self) -> tuple[tuple[str, Opaque], ...]:
        """Path and text of each statement on which the command line may depend and which only a shell understands."""
        return tuple(
            (path, statement)
            for path in self.order
            for statement in statements(self.files[path])
            if isinstance(statement, Opaque) and _concerns(statement)
        )

    def find(self, token: str) -> Maybe[tuple[PlacedToken, ...]]:
        """Return the places of ``name`` or ``name=value`` in the effective command line."""
        tokens = self.tokens()
        if isinstance(tokens, Unknown):
            return tokens
        want = Token(token)
        return tuple(t for t in tokens if t.token.key == want.key and t.token.value == want.value)

    def remove(self, place: PlacedToken) -> GrubDefaults:
        """Return the files without this one token; every other byte stays.  ``ValueError`` if it spans files."""
        return self._cut(place, "")

    def replace(self, place: PlacedToken, new: str) -> GrubDefaults:
        """Return the files with ``new`` in the token's place; ``new`` must need no quoting in a shell."""
        return self._cut(place, new)

    def with_file(self, path: str, content: str | None) -> GrubDefaults:
        """Return the files with one written anew, or without it."""
        rest = {p: t for p, t in self.files.items() if p != path}
        return GrubDefaults(rest if content is None else {**rest, path: content})

    def _cut(self, place: PlacedToken, new: str) -> GrubDefaults:
        path = place.path
        if path is None:
            raise ValueError(f"{place.token.raw} is put together from several files")
        cuts = {(c.start, c.end): "" for c in place.chars}
        first = place.chars[0]
        if new:
            cuts[first.start, first.end] = new
        else:
            spaces = _neighbours(place.before, path, first.line) or _neighbours(place.after, path, first.line)
            cuts.update({(c.start, c.end): "" for c in spaces})
        text = self.files[path]
        for (start, end), instead in sorted(cuts.items(), reverse=True):
            text = text[:start] + instead + text[end:]
        return self.with_file(path, text)

    def _evaluate(self, *, plain: bool = False) -> dict[str, Maybe[tuple[Placed, ...]]]:
        """Return each variable's value; ``plain`` leaves out what only a shell understands."""
        values: dict[str, Maybe[tuple[Placed, ...]]] = {}
        for path in self.order:
            for statement in statements(self.files[path]):
                if not plain:
                    _step(values, statement, path)
                elif isinstance(statement, Assignment):
                    values[statement.name] = _value(values, _without_shell(statement), path)
        return values

    def _assigned(self) -> list[PlacedToken]:
        """Every token of every assignment to the command line, without what it takes over from other variables."""
        found: list[PlacedToken] = []
        for path in self.order:
            for statement in statements(self.files[path]):
                if isinstance(statement, Assignment) and statement.name in VARIABLES:
                    chars = tuple(
                        Placed(p.text, path, p.start, p.end, statement.line)
                        if isinstance(p, Char)
                        else Placed(" ", path, -1, -1, statement.line)
                        for p in statement.pieces
                    )
                    found.extend(_split(chars, statement.name))
        return found


def is_snippet(path: str) -> bool:
    """Whether update-grub reads this path as a snippet."""
    name = path.removeprefix(SNIPPET_FOLDER)
    return name != path and "/" not in name and name.endswith(".cfg") and not name.startswith(".")


def generated_entries(text: str) -> tuple[tuple[str, Cmdline], ...]:
    """Return kernel path and command line of each ``linux`` line of a generated grub.cfg, in order."""
    found = []
    for line in text.splitlines():
        words = line.split(None, 2)
        if len(words) >= 2 and words[0] in ("linux", "linux16", "linuxefi"):
            found.append((words[1], Cmdline.parse(words[2] if len(words) > 2 else "")))
    return tuple(found)


def generated_cmdline(text: str) -> Maybe[Cmdline]:
    """What the first entry of a generated grub.cfg boots with (root device included)."""
    entries = generated_entries(text)
    if not entries:
        return Unknown(unknown=f"{GENERATED_FILE} has no linux line", supply="run update-grub on the host")
    return entries[0][1]


def _step(values: dict[str, Maybe[tuple[Placed, ...]]], statement: Statement, path: str) -> None:
    if isinstance(statement, Assignment):
        values[statement.name] = _value(values, statement, path)
        return
    is_source = _SOURCES.search(statement.text) is not None
    for variable in VARIABLES:
        if is_source or variable in statement.text:
            values[variable] = _only_shell(path, statement)


def _concerns(statement: Opaque) -> bool:
    return _SOURCES.search(statement.text) is not None or any(name in statement.text for name in VARIABLES)


def _without_shell(statement: Assignment) -> Assignment:
    kept = tuple(piece for piece in statement.pieces if not isinstance(piece, Opaque))
    return replace(statement, pieces=kept, appends=False)


def _value(
    values: Mapping[str, Maybe[tuple[Placed, ...]]], statement: Assignment, path: str
) -> Maybe[tuple[Placed, ...]]:
    chars: list[Placed] = []
    if statement.appends:
        return _only_shell(path, Opaque(f"{statement.name}+=", statement.line))
    for piece in statement.pieces:
        if isinstance(piece, Char):
            chars.append(Placed(piece.text, path, piece.start, piece.end, statement.line))
        elif isinstance(piece, Expansion):
            inner = _expand(values, piece, path, statement.line)
            if isinstance(inner, Unknown):
                return inner
            chars.extend(inner)
        else:
            return _only_shell(path, piece)
    return tuple(chars)


def _expand(
    values: Mapping[str, Maybe[tuple[Placed, ...]]], piece: Expansion, path: str, line: int
) -> Maybe[tuple[Placed, ...]]:
    if piece.name in values:
        return values[piece.name]
    if piece.name.startswith("GRUB_"):
        return ()
    return _only_shell(path, Opaque(f"${piece.name}", line))


def _only_shell(path: str, what: Opaque) -> Unknown:
    excerpt = what.text.splitlines()[0][:60] if what.text else ""
    return Unknown(
        unknown=f"{path} line {what.line} needs a shell to be understood: {excerpt}",
        supply=f"write GRUB_CMDLINE_LINUX_DEFAULT as a plain assignment in {path}",
    )


def _split(value: tuple[Placed, ...], variable: Variable) -> list[PlacedToken]:
    text = "".join(c.char for c in value)
    parsed = Cmdline.parse(text)
    found: list[PlacedToken] = []
    position = 0
    for token in parsed.tokens:
        start = position + len(token.lead)
        end = start + len(token.raw)
        follows = end
        while follows < len(value) and value[follows].char in SPACES:
            follows += 1
        found.append(PlacedToken(token, variable, value[start:end], value[position:start], value[end:follows]))
        position = end
    return found


def _neighbours(spaces: tuple[Placed, ...], path: str, line: int) -> tuple[Placed, ...]:
    """White space of the same assignment; any other belongs to another file or line and stays."""
    return spaces if spaces and all(c.path == path and c.line == line for c in spaces) else ()
