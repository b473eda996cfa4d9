"""What can go wrong with a library, and how a failed call becomes part of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Missing(Exception):
    """A library or a call is not there; the text says which."""


class CallFailed(Exception):
    """A call answered with an error number."""

    def __init__(self, call: str, code: int, detail: str = "") -> None:
        super().__init__(f"{call} returned {code}" + (f" ({detail})" if detail else ""))
        self.call = call
        self.code = code


def attempt(call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns, or ``{"error": text}``."""
    try:
        return call()
    except (CallFailed, Missing) as error:
        return {"error": str(error)}
