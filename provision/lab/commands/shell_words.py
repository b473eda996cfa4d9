"""Assignments of a shell file, read without a shell.

``/etc/default/grub`` and its snippets are sourced by a shell.  The lab reads assignments with
quotes, line continuation, ``$NAME`` and ``${NAME}``; command substitution comes out empty.
"""

from __future__ import annotations

import re

_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)(\+?=)")
_NAME = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class ShellSyntaxError(Exception):
    """The text is no valid shell: ``line`` is where, the message what a shell says."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def source(text: str, variables: dict[str, str]) -> None:
    """Carry out the assignments of ``text`` in ``variables``.  Raises :class:`ShellSyntaxError`."""
    reader = _Reader(text, variables)
    position = 0
    while position < len(text):
        match = _ASSIGNMENT.match(text, position)
        if match is None:
            position = _next_line(text, position)
            continue
        value, stop = reader.word(match.end())
        variables[match[1]] = variables.get(match[1], "") + value if match[2] == "+=" else value
        position = _next_line(text, stop)


def _next_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


class _Reader:
    """Reads one word of a shell: pieces with and without quotes, up to a blank."""

    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self.text = text
        self.variables = variables

    def word(self, position: int) -> tuple[str, int]:
        """Return the value of the word at ``position`` and where it ends."""
        text = self.text
        parts: list[str] = []
        while position < len(text) and text[position] not in " \t\n;":
            if text[position] == "'":
                end = self._closing("'", position + 1)
                piece, position = text[position + 1 : end], end + 1
            elif text[position] == '"':
                piece, position = self._double(position + 1)
            else:
                piece, position = self._plain(position, escapes=None)
            parts.append(piece)
        return "".join(parts), position

    def _double(self, start: int) -> tuple[str, int]:
        position = start
        parts: list[str] = []
        while position < len(self.text):
            if self.text[position] == '"':
                return "".join(parts), position + 1
            piece, position = self._plain(position, escapes='"\\$`\n')
            parts.append(piece)
        raise self._unterminated(start)

    def _plain(self, position: int, *, escapes: str | None) -> tuple[str, int]:
        """Read one character, escape, variable or command substitution; ``escapes``: what a backslash quotes."""
        text, char = self.text, self.text[position]
        following = text[position + 1 : position + 2]
        if char == "\\" and following and (escapes is None or following in escapes):
            return ("" if following == "\n" else following), position + 2
        if char == "`":
            return "", self._closing("`", position + 1) + 1
        if text.startswith("$(", position):
            return "", self._closing(")", position + 2) + 1
        match = _NAME.match(text, position)
        if match is not None:
            return self.variables.get(match[1] or match[2], ""), match.end()
        return char, position + 1

    def _closing(self, quote: str, position: int) -> int:
        end = self.text.find(quote, position)
        if end < 0:
            raise self._unterminated(position)
        return end

    def _unterminated(self, position: int) -> ShellSyntaxError:
        line = self.text.count("\n", 0, position) + 1
        return ShellSyntaxError(line, "Syntax error: Unterminated quoted string")
