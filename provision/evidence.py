"""What is not known is a value, with its reason.

A fact that could not be read must never read as a fact that is absent: an
access control capability that root alone may see is not "no ACS".  Every
optional fact of the model therefore has three states: a value, ``None``
(looked for and not there) and :class:`Unknown`.
"""

from __future__ import annotations

from typing import TypeVar, Union

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Frozen(BaseModel):
    """Base of every value that is handed from one stage to the next."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class Unknown(Frozen):
    """A fact that could not be read: why, and what the user can do to supply it."""

    unknown: str
    supply: str = ""

    def __bool__(self) -> bool:
        """Unknown is never true, so that it cannot pass a check by accident."""
        return False

    def __str__(self) -> str:
        return f"unknown ({self.unknown})"


Maybe = Union[T, Unknown]


def known(value: Maybe[T], default: T) -> T:
    """Return the value, or ``default`` where it is unknown.

    Use it for display only: a rule must look at :class:`Unknown` itself.
    """
    return default if isinstance(value, Unknown) else value
