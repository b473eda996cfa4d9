"""Where words go: the answer to stdout, progress and errors to stderr."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from itertools import pairwise
from typing import Any, TextIO

from provision.envelope import dumps, wrap
from provision.errors import ConsentNeeded, PvectlError


class OutputFormat(StrEnum):
    text = "text"
    json = "json"


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def wants_color(stream: TextIO | None = None) -> bool:
    """Color only on a terminal, never with NO_COLOR (no-color.org) or TERM=dumb."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style(text: str, name: str) -> str:
    """Return ``text`` in a named style where stdout takes color, and unchanged elsewhere."""
    if not wants_color():
        return text
    return f"\033[{_CODES[name]}m{text}\033[0m"


def answer(text: str) -> None:
    """Write the answer to stdout, with one final line feed."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def progress(text: str) -> None:
    """Write a line of progress to stderr."""
    sys.stderr.write(text.rstrip("\n") + "\n")
    sys.stderr.flush()


def emit_json(kind: str, data: Any) -> None:
    """Write ``data`` (a pydantic model or JSON values) in its envelope to stdout."""
    values = data.model_dump(mode="json") if hasattr(data, "model_dump") else data
    answer(dumps(wrap(kind, values)))


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on the terminal.  Off a terminal and without ``--yes`` raise ConsentNeeded."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConsentNeeded(
            f"Unable to go on: {question} was not answered, and this is no terminal",
            "read the plan, then repeat the command with --yes",
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def error_text(error: PvectlError) -> str:
    """Return the lines of an error for stderr: what, every problem, one hint."""
    lines = [f"error: {error.message}"]
    lines += [f"  {problem}" for problem in getattr(error, "problems", ())]
    lines += [f"  moved: {thing}" for thing in getattr(error, "moved", ())]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines) + "\n"


def wants_json(arguments: list[str]) -> bool:
    """Whether the command line asked for JSON: then an error is JSON on stdout too."""
    return "--output=json" in arguments or any(a == "--output" and b == "json" for a, b in pairwise(arguments))


def write_error_json(error: PvectlError) -> None:
    data = {
        "error": type(error).__name__,
        "exit_code": error.exit_code,
        "message": error.message,
        "hint": error.hint,
        "problems": list(getattr(error, "problems", ())),
        "moved": list(getattr(error, "moved", ())),
    }
    answer(dumps(wrap("error", data)))
