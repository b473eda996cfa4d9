"""Units that a boot of the simulated host starts.

The lab has no service manager: it marks what is enabled as active.
"""

from __future__ import annotations

from provision.lab.commands.context import Machinery
from provision.lab.commands.pct import start_at_boot
from provision.lab.commands.systemd import ACTIVE, wanted_at_boot


def start_units(host: Machinery) -> None:
    """Mark every unit that is enabled for a target as active, and no other; start the containers that want it."""
    for name in host.root.names(ACTIVE):
        host.root.remove(f"{ACTIVE}/{name}")
    for name in wanted_at_boot(host):
        host.root.write(f"{ACTIVE}/{name}", "active\n")
    start_at_boot(host)
