"""Who a device is: ids, Device Serial Number and the topological path.

Bus numbers move when a card is added or the firmware changes; the ACPI path of the host bridge
and the device.function of every bridge below it do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.evidence import Maybe, Unknown
from provision.pci.address import Bdf
from provision.pci.model import Identity, PciFunction
from provision.pci.tree import Tree

_EMPTY_DSN = ("0" * 16, "f" * 16)
"""What devices without a programmed serial number show: it identifies nothing."""


def identity(fn: PciFunction, functions: Sequence[PciFunction]) -> Maybe[Identity]:
    """Return the identity of ``fn``, or Unknown naming the part that could not be read.

    ``functions`` are all functions of the host.
    """
    path = topological_path(fn, Tree(functions))
    if isinstance(path, Unknown):
        return path
    subsystem = fn.subsystem_ids
    if isinstance(subsystem, Unknown):
        return subsystem
    dsn = fn.config if isinstance(fn.config, Unknown) else fn.config.dsn
    if isinstance(dsn, Unknown):
        return Unknown(unknown=f"serial number of {fn.bdf}: {dsn.unknown}", supply=dsn.supply)
    return Identity(ids=fn.ids, subsystem_ids=subsystem, dsn=None if dsn in _EMPTY_DSN else dsn, path=path)


def topological_path(fn: PciFunction, tree: Tree) -> Maybe[str]:
    """Return ``<ACPI path of the host bridge>/<dev.fn>/.../<dev.fn>``.

    A host bridge that firmware does not name is known by its own name only where that cannot
    move: the first bus of the first domain.
    """
    chain = [fn, *tree.ancestors(fn)]
    missing = tree.missing_parent(fn)
    if missing is not None:
        return Unknown(unknown=f"{missing}, above {fn.bdf}, is not in the capture", supply="take a new capture")
    root = fn.root_acpi_path
    if root is None and fn.root == "pci0000:00":
        root = fn.root
    if root is None:
        return Unknown(
            unknown=f"firmware gives no name to host bridge {fn.root}, and its bus number may move",
            supply="name the device by serial number or slot",
        )
    if isinstance(root, Unknown):
        return root
    return "/".join([root, *(Bdf.parse(part.bdf).devfn for part in reversed(chain))])
