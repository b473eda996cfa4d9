"""What the tests of the suite share: who the machine is, what its probe said, and that it is the same boot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from provision.errors import Undecided
from provision.verify.inventory_hosts import Entry, entry_of, only_guest
from provision.verify.modules.base import name_of, read_paths
from provision.verify.plugin import inventory_of


@dataclass(frozen=True)
class Machine:
    """The tested machine.  ``role`` by what it is, ``entry`` by the inventory where one is given and knows it."""

    name: str
    role: Literal["host", "guest"]
    entry: Entry | None

    def need(self, role: Literal["host", "guest"]) -> None:
        """Skip the test on a machine of the other kind."""
        if self.role != role:
            pytest.skip(f"not applicable: {self.name} is a {self.role}, and this is about a {role}")

    def need_entry(self) -> Entry:
        """Skip the test where no inventory says what is wanted of this machine."""
        if self.entry is None:
            pytest.skip(f"not applicable: no inventory says what is wanted of {self.name} (--pvectl-inventory)")
        return self.entry


@pytest.fixture(scope="module")
def machine(host: Any, request: pytest.FixtureRequest) -> Machine:
    role: Literal["host", "guest"] = "host" if read_paths(host, "dir:/etc/pve/nodes") else "guest"
    inventory = inventory_of(request.config)
    entry = None
    if inventory is not None:
        spec = getattr(host.backend, "host", None)
        port = getattr(spec, "port", None)
        entry = entry_of(inventory, str(host.backend.hostname), int(port) if port else None)
        entry = entry or (only_guest(inventory) if role == "guest" else None)
    if entry is not None and (entry.vmid is None) != (role == "host"):
        raise Undecided(f"Unable to judge {name_of(host)}: it is a {role}, and the inventory says otherwise")
    return Machine(name_of(host), role, entry)


@pytest.fixture(autouse=True)
def _one_boot(request: pytest.FixtureRequest) -> None:
    """Every test of the suite that looks at a machine, but the proof, whose facts were gathered before."""
    if "machine" in request.fixturenames:
        request.getfixturevalue("same_boot")
