"""The way to a host during a run: replaced by a fresh one after a reboot."""

from __future__ import annotations

from collections.abc import Callable

from provision.errors import PvectlError
from provision.pve.session import PveSession
from provision.remote.session import Session


class Link:
    """The session and Proxmox' objects of one host.  Closes the sessions that it opened itself."""

    def __init__(
        self,
        session: Session,
        pve: PveSession,
        connect: Callable[[], Session],
        connect_pve: Callable[[Session], PveSession],
    ) -> None:
        self.session = session
        self.pve = pve
        self._connect = connect
        self._connect_pve = connect_pve
        self._is_own = False

    def drop(self) -> None:
        """Close the session: a reboot leaves it half open, and it must not be used again."""
        try:
            self.session.close()
        except (PvectlError, OSError):
            return  # it is gone either way

    def fresh(self) -> Session:
        """Open a new session without taking it."""
        return self._connect()

    def take(self, session: Session) -> None:
        self.session = session
        self._is_own = True

    def open_pve(self) -> None:
        self.pve = self._connect_pve(self.session)

    def close(self) -> None:
        if self._is_own:
            self.drop()
