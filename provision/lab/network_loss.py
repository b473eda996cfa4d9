"""Whether a simulated host has a network in this boot.

It has none where its bridge has no port: the interfaces have other names than /etc/network/interfaces.  The fault
``network-lost`` lets no boot with another kernel command line than the present one have any.
"""

from __future__ import annotations

from provision.lab.rootfs import Rootfs

CMDLINE = "/proc/cmdline"
NET = "/sys/class/net"


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
        return self._has_port and (self.good is None or self.good == self.root.read(CMDLINE))

    @property
    def _has_port(self) -> bool:
        bridges = [name for name in self.root.names(NET) if self.root.exists(f"{NET}/{name}/bridge")]
        return any(self.root.names(f"{NET}/{name}/brif") for name in bridges)
