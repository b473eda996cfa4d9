"""How a Proxmox call ends when it does not succeed."""

from __future__ import annotations

from typing import NoReturn


class CallFailed(Exception):
    """An answer other than 200: status, reason phrase and, for parameters, what is wrong with each.

    ``message`` is the whole text with its final line feed; the reason phrase is its first line.
    ``bare`` answers have no JSON body (401, 501 and the proxy's own).
    """

    def __init__(
        self, message: str, status: int = 500, errors: dict[str, str] | None = None, *, bare: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.errors = errors
        self.bare = bare

    @property
    def reason(self) -> str:
        return self.message.split("\n", 1)[0]


def die(message: str) -> NoReturn:
    """Fail as a Perl ``die`` does: status 500 with the text."""
    raise CallFailed(message)


def bad_parameters(errors: dict[str, str]) -> NoReturn:
    raise CallFailed("Parameter verification failed.", 400, errors)


def denied(path: str = "", privilege: str = "") -> NoReturn:
    """Fail with 403 as Proxmox words it; some calls name neither path nor privilege."""
    detail = f" ({path}, {privilege})" if path else ""
    raise CallFailed(f"Permission check failed{detail}", 403)


def no_node(node: str) -> NoReturn:
    die(
        f"hostname lookup '{node}' failed - failed to get address info for: {node}: "
        "Temporary failure in name resolution"
    )
