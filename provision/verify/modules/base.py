"""How the modules look at a machine: by testinfra's ``host.run`` alone, over any of its backends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from provision.errors import PvectlError, Undecided
from provision.verify.modules.carry import carried, reader_source

PYTHON_MISSING = 127


def run_python(host: Any, source: str, arguments: Sequence[str] = ()) -> str:
    """Run a program of pvectl's on the machine and return what it wrote; nothing is left there.

    Raises Undecided where it could not be run: what was to be looked at is then not known.
    """
    words = ("python3 -I -c %s" + " %s" * len(arguments), carried(source), *arguments)
    try:
        done = host.run(*words)
    except (RuntimeError, PvectlError, OSError) as error:
        cause = getattr(error, "message", str(error)[:200])
        raise Undecided(f"Unable to look at {name_of(host)}: {cause}", "make it reachable") from error
    if done.rc != 0:
        why = "there is no python3" if done.rc == PYTHON_MISSING else (done.stderr.strip().splitlines() or ["?"])[-1]
        raise Undecided(f"Unable to look at {name_of(host)}: python3 ended with {done.rc}: {why}", "install python3")
    return str(done.stdout)


def read_paths(host: Any, *patterns: str) -> dict[str, Any]:
    """Return files, links and folders by their path: see :mod:`provision.verify.modules.reader`.

    A thing that is there and cannot be read is ``{"error": reason}``.  Raises Undecided as :func:`run_python` does.
    """
    text = run_python(host, reader_source(), patterns)
    try:
        found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Undecided(f"Unable to look at {name_of(host)}: the answer is no JSON: {text[:80]!r}") from error
    return found


def name_of(host: Any) -> str:
    return str(host.backend.get_pytest_id())


def text_or_none(value: Any) -> str | None:
    """Return a file's text without white space around it; ``None`` where it was not there or not readable."""
    return value.strip() if isinstance(value, str) else None
