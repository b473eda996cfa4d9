"""The tree of bridges: who is above whom, in which order the kernel met them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from provision.evidence import Maybe, Unknown
from provision.pci.address import Bdf
from provision.pci.model import PciFunction, PortType

UNPLACED = "?"
"""Parent of a function whose place in the tree could not be read."""


class Tree:
    """The functions of one host, indexed.  Give it every function of the host."""

    def __init__(self, functions: Sequence[PciFunction]) -> None:
        self.by_bdf: Mapping[str, PciFunction] = {fn.bdf: fn for fn in functions}
        self._children: dict[str, list[PciFunction]] = defaultdict(list)
        self._slots: dict[str, list[PciFunction]] = defaultdict(list)
        for fn in sorted(functions, key=lambda fn: Bdf.parse(fn.bdf)):
            self._children[fn.parent or ""].append(fn)
            self._slots[Bdf.parse(fn.bdf).slot].append(fn)

    def missing_parent(self, fn: PciFunction) -> str | None:
        """Return the bridge above ``fn`` that should be here and is not; nothing can be said about its path."""
        top = (fn, *self.ancestors(fn))[-1]
        return top.parent if top.parent is not None and top.parent not in self.by_bdf else None

    def parent(self, fn: PciFunction) -> PciFunction | None:
        return self.by_bdf.get(fn.parent) if fn.parent else None

    def ancestors(self, fn: PciFunction) -> Iterator[PciFunction]:
        """Yield the bridges above ``fn``, nearest first."""
        seen = {fn.bdf}
        above = self.parent(fn)
        while above is not None and above.bdf not in seen:
            seen.add(above.bdf)
            yield above
            above = self.parent(above)

    def children(self, fn: PciFunction) -> tuple[PciFunction, ...]:
        return tuple(self._children.get(fn.bdf, ()))

    def descendants(self, fn: PciFunction) -> Iterator[PciFunction]:
        """Yield everything below ``fn``, in scan order."""
        yield from self.children(fn)
        for child in self.children(fn):
            yield from self.descendants(child)

    def siblings(self, fn: PciFunction) -> tuple[PciFunction, ...]:
        """The other functions of the same slot."""
        return tuple(other for other in self._slots[Bdf.parse(fn.bdf).slot] if other.bdf != fn.bdf)

    def roots(self) -> tuple[str, ...]:
        """Names of the host bridges, ``pci0000:40``, by domain and bus."""
        return tuple(sorted({fn.root for fn in self.by_bdf.values()}, key=_root_key))

    def below_root(self, root: str) -> tuple[PciFunction, ...]:
        """Functions directly below a host bridge.

        A function whose parent is missing from the capture stands here too: it must not
        vanish from what is printed.
        """
        top = [*self._children.get("", ())]
        for name, children in self._children.items():
            if name and name not in self.by_bdf:
                top.extend(children)
        return tuple(sorted((fn for fn in top if fn.root == root), key=lambda fn: Bdf.parse(fn.bdf)))

    def scan_order(self) -> tuple[PciFunction, ...]:
        """Every function in the order in which the kernel registers them.

        Host bridge by host bridge; each bus completely, then the buses below its bridges in
        turn (drivers/pci/probe.c).  Virtual functions come with their driver, after all others.
        """
        order: list[PciFunction] = []
        for root in self.roots():
            top = self.below_root(root)
            order.extend(top)
            for fn in top:
                order.extend(self.descendants(fn))
        physical = [fn for fn in order if not is_virtual(fn)]
        return (*physical, *(fn for fn in order if is_virtual(fn)))


def _root_key(root: str) -> tuple[int, int, str]:
    domain, _, bus = root.removeprefix("pci").partition(":")
    try:
        return int(domain, 16), int(bus, 16), root
    except ValueError:
        return 1 << 32, 0, root


def is_virtual(fn: PciFunction) -> bool:
    """True for a function that is known to be an SR-IOV virtual function."""
    return isinstance(fn.physfn, str)


def port_type(fn: PciFunction) -> Maybe[PortType | None]:
    """Return the PCI Express port type; ``None`` for a conventional function."""
    return fn.config if isinstance(fn.config, Unknown) else fn.config.port_type


def is_multifunction(fn: PciFunction, tree: Tree) -> Maybe[bool]:
    """True where the kernel sets ``multifunction``: bit 7 of function 0, or any function above 0.

    Virtual functions never count.  What the slot shows is enough where the register is unknown,
    except for a function that stands alone.
    """
    if is_virtual(fn):
        return False
    if Bdf.parse(fn.bdf).function or any(not is_virtual(other) for other in tree.siblings(fn)):
        return True
    return fn.config if isinstance(fn.config, Unknown) else fn.config.is_multifunction
