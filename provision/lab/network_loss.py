"""The fault ``network-lost``: with another kernel command line than the present one the host has no network."""

from __future__ import annotations

from provision.lab.rootfs import Rootfs

CMDLINE = "/proc/cmdline"


class NetworkLoss:
    """Whether the host has its network in this boot."""

    def __init__(self, root: Rootfs) -> None:
        self.root = root
        self.good: str | None = None

    def bring_in(self) -> None:
        """From now on only the present command line brings the network up."""
        self.good = self.root.read(CMDLINE)

    @property
    def is_up(self) -> bool:
        return self.good is None or self.good == self.root.read(CMDLINE)
