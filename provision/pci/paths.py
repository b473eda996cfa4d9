"""The way between two GPUs through the host's PCI fabric.

Classes are those that ``nvidia-smi topo -m`` prints on bare metal.  Which requests and completions a switch sends up
to the root complex instead of across follows from the ACS control bits (PCI Express Base Specification, 6.12).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.acs import CR, EC, RR, acs_of, bit_names
from provision.pci.model import PciFunction
from provision.pci.tree import Tree

PathClass = Literal["X", "PIX", "PXB", "PHB", "NODE", "SYS"]

MEANING: dict[str, str] = {
    "X": "the GPU itself",
    "PIX": "through one switch or bridge",
    "PXB": "through several switches or bridges, not through a host bridge",
    "PHB": "through one host bridge, between its root ports",
    "NODE": "between host bridges of one NUMA node",
    "SYS": "between NUMA nodes",
}


class Redirect(Frozen):
    """A port whose ACS sends peer traffic up to the root complex; ``bits`` are names such as ``RR``."""

    port: str
    bits: tuple[str, ...]


class GpuPath(Frozen):
    """From ``source``, which reads and writes, to ``target``."""

    source: str
    target: str
    path: Maybe[PathClass]
    common: Maybe[str | None]
    """The lowest bridge above both, a switch's upstream port in the ordinary case; None where they meet above."""
    requests: Maybe[tuple[Redirect, ...]]
    """Ports above the source, below the common bridge, with RR or EC set."""
    completions: Maybe[tuple[Redirect, ...]]
    """Ports above the target, below the common bridge, with CR set."""
    iommu_units: Maybe[tuple[str, ...]]
    """The units that translate for the two, each once; empty where no IOMMU is on."""
    numa_nodes: Maybe[tuple[int, ...]]
    """The nodes of the two, each once."""
    same_socket: Maybe[bool]

    @property
    def is_redirected(self) -> Maybe[bool]:
        """True where a switch between the two sends requests or completions up."""
        if self.requests or self.completions:
            return True
        return next((fact for fact in (self.requests, self.completions) if isinstance(fact, Unknown)), False)


def gpu_paths(
    gpus: Sequence[PciFunction], functions: Sequence[PciFunction], nodes: Maybe[tuple[int, ...]]
) -> tuple[GpuPath, ...]:
    """Return the path of every ordered pair.  ``nodes`` are the host's NUMA nodes."""
    tree = Tree(functions)
    return tuple(_path(a, b, tree, nodes) for a in gpus for b in gpus if a.bdf != b.bdf)


def _path(a: PciFunction, b: PciFunction, tree: Tree, nodes: Maybe[tuple[int, ...]]) -> GpuPath:
    lost = tree.missing_parent(a) or tree.missing_parent(b)
    numa = _numa_nodes(a, b, nodes)
    if lost is not None:
        why = Unknown(unknown=f"the bridge {lost} above a GPU was not read", supply="take a new capture of the host")
        return _gpu_path(a, b, numa, why, why, why, why)
    above_a, above_b = list(tree.ancestors(a)), list(tree.ancestors(b))
    common = next((fn for fn in above_a if fn in above_b), None)
    below_a, below_b = _below(above_a, common), _below(above_b, common)
    if common is not None:
        # One switch is a downstream port on either side of its upstream port.
        path: Maybe[PathClass] = "PIX" if max(len(below_a), len(below_b)) <= 1 else "PXB"
        return _gpu_path(a, b, numa, path, common.bdf, _redirects(below_a, RR | EC), _redirects(below_b, CR))
    path = "PHB" if a.root == b.root else _between_roots(numa)
    # Where the two meet in the root complex there is nothing to redirect.
    return _gpu_path(a, b, numa, path, None, (), ())


def _gpu_path(
    a: PciFunction,
    b: PciFunction,
    numa: Maybe[tuple[int, ...]],
    path: Maybe[PathClass],
    common: Maybe[str | None],
    requests: Maybe[tuple[Redirect, ...]],
    completions: Maybe[tuple[Redirect, ...]],
) -> GpuPath:
    return GpuPath(
        source=a.bdf,
        target=b.bdf,
        path=path,
        common=common,
        requests=requests,
        completions=completions,
        iommu_units=_units(a, b),
        numa_nodes=numa,
        same_socket=_same_socket(a, b, numa, common),
    )


def _below(above: Sequence[PciFunction], common: PciFunction | None) -> list[PciFunction]:
    return list(above) if common is None else list(above[: above.index(common)])


def _between_roots(numa: Maybe[tuple[int, ...]]) -> Maybe[PathClass]:
    if isinstance(numa, Unknown):
        return numa
    return "NODE" if len(numa) == 1 else "SYS"


def _redirects(ports: Sequence[PciFunction], wanted: int) -> Maybe[tuple[Redirect, ...]]:
    """Return the ports that have one of the ``wanted`` bits on; a port that could not be read hides the answer."""
    found: list[Redirect] = []
    unread: Unknown | None = None
    for port in ports:
        state = acs_of(port)
        if isinstance(state, Unknown):
            unread = unread or state
        elif state is not None and state.control & wanted:
            found.append(Redirect(port=port.bdf, bits=bit_names(state.control & wanted)))
    return unread if unread is not None and not found else tuple(found)


def _units(a: PciFunction, b: PciFunction) -> Maybe[tuple[str, ...]]:
    found: list[str] = []
    for fn in (a, b):
        if isinstance(fn.iommu_unit, Unknown):
            return fn.iommu_unit
        if fn.iommu_unit is not None and fn.iommu_unit not in found:
            found.append(fn.iommu_unit)
    return tuple(found)


def _numa_nodes(a: PciFunction, b: PciFunction, nodes: Maybe[tuple[int, ...]]) -> Maybe[tuple[int, ...]]:
    """Without a node from firmware a host with one node leaves no doubt; with several it does."""
    if isinstance(nodes, tuple) and len(nodes) == 1:
        return nodes
    found: list[int] = []
    for fn in (a, b):
        if isinstance(fn.numa_node, Unknown):
            return fn.numa_node
        if fn.numa_node is None:
            return Unknown(
                unknown=f"firmware gives no NUMA node for {fn.bdf}", supply="look for NUMA in the BIOS set-up"
            )
        if fn.numa_node not in found:
            found.append(fn.numa_node)
    return tuple(found)


def _same_socket(
    a: PciFunction, b: PciFunction, numa: Maybe[tuple[int, ...]], common: Maybe[str | None]
) -> Maybe[bool]:
    """A NUMA node lies in one socket; two nodes may lie in one, too (NPS2, NPS4, sub-NUMA clusters)."""
    if isinstance(common, str) or (a.root == b.root and a.root):
        return True
    if isinstance(numa, Unknown):
        return numa
    if len(numa) == 1:
        return True
    return Unknown(unknown="two NUMA nodes may be of one socket", supply="compare lscpu's sockets and NUMA nodes")
