"""What to expect of peer-to-peer traffic between two GPUs: in one VM, in a container, on bare metal.

A forecast is no proof.  A VM's driver grants nothing by itself and everything when it is told to; only a test that
reads on the target what the source wrote shows that data arrives.  Sources: open-gpu-kernel-modules
(p2p_caps.c, chipset_pcie.c), QEMU (hw/vfio/pci-quirks.c), linux (drivers/pci/p2pdma.c), NVIDIA/nccl issue 2335.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import PciFunction
from provision.pci.model_names import is_geforce
from provision.pci.paths import GpuPath
from provision.pci.tree import is_virtual

Verdict = Literal["no", "grantable", "likely", "slow", "unknown"]

MEANING: dict[str, str] = {
    "no": "do not use it",
    "grantable": "off by default; can be granted, must be proven",
    "likely": "expected to work, must be tested",
    "slow": "expected to work below full speed, must be tested",
    "unknown": "cannot be told from here",
}


class Forecast(Frozen):
    verdict: Verdict
    reasons: tuple[str, ...]


class HostFacts(Frozen):
    """What a forecast needs of the host beside the two GPUs."""

    cpu_vendor: Maybe[str]
    iommu_is_on: Maybe[bool]
    domain_types: dict[str, Maybe[str | None]]
    """Default IOMMU domain of each GPU's group, by BDF: ``identity``, ``DMA``, ``DMA-FQ``."""


class PairForecast(Frozen):
    source: str
    target: str
    vm: Forecast
    container: Forecast
    bare_metal: Forecast


def forecast(path: GpuPath, gpus: Mapping[str, PciFunction], host: HostFacts) -> PairForecast:
    """Return the forecast for one ordered pair; ``gpus`` are by BDF."""
    pair = (gpus[path.source], gpus[path.target])
    bare = _on_host(path, pair, host)
    return PairForecast(
        source=path.source,
        target=path.target,
        vm=_in_vm(path, pair, host),
        container=_in_container(bare),
        bare_metal=bare,
    )


def _in_vm(path: GpuPath, pair: tuple[PciFunction, PciFunction], host: HostFacts) -> Forecast:
    never = _never(pair, "a grant to GeForce is false: the driver says OK and the data does not arrive")
    if never is not None:
        return never
    if host.iommu_is_on is False:
        return _say("no", "the IOMMU is off: no GPU can be given to a VM")
    unknown = _unread(path.path, path.common, host.iommu_is_on)
    if isinstance(path.common, str) and path.is_redirected is False:
        return _say(
            "no",
            "ACS redirect is off in the switch between them: it would route guest addresses by the host's windows",
        )
    if isinstance(path.common, str) and isinstance(path.is_redirected, Unknown):
        unknown.append(f"ACS of the switch between them: {path.is_redirected.unknown}")
    unknown += _platform_doubts(path, host)
    if unknown:
        return _say("unknown", *unknown)
    return _say(
        "grantable",
        "not granted by default; the same x-nv-gpudirect-clique on both grants it; prove it on this host before use",
        *_platform_facts(path, host),
    )


def _on_host(path: GpuPath, pair: tuple[PciFunction, PciFunction], host: HostFacts) -> Forecast:
    never = _never(pair, "NVIDIA's driver does not offer it on GeForce")
    if never is not None:
        return never
    unknown = _unread(path.path, path.common)
    if isinstance(path.common, str) and isinstance(path.is_redirected, Unknown):
        unknown.append(f"ACS of the switch between them: {path.is_redirected.unknown}")
    if not isinstance(path.common, str) or path.is_redirected:
        unknown += _platform_doubts(path, host)
    translated, doubts = _translation(pair, host)
    unknown += doubts
    if unknown:
        return _say("unknown", *unknown)
    slow = [*translated]
    if isinstance(path.common, str) and path.is_redirected:
        slow.append("ACS redirect sends traffic of the switch up to the root port and back: about half the bandwidth")
    if slow:
        return _say("slow", *slow)
    where = "inside the switch" if isinstance(path.common, str) else "through the root complex"
    return _say("likely", f"peer traffic goes {where}", *_platform_facts(path, host))


def _in_container(bare: Forecast) -> Forecast:
    """A container uses the host's driver: the hardware's answer is that of bare metal."""
    if bare.verdict in ("no", "unknown"):
        return bare
    return _say(bare.verdict, *bare.reasons, "all GPUs of a job must be in one container")


def _never(pair: tuple[PciFunction, PciFunction], why: str) -> Forecast | None:
    if any(is_virtual(fn) for fn in pair):
        return _say("no", "the driver turns it off on SR-IOV virtual functions")
    if any(is_geforce(fn.ids) for fn in pair):
        return _say("no", why)
    unlisted = [fn.ids for fn in pair if is_geforce(fn.ids) is None]
    if unlisted:
        return _say("unknown", f"{unlisted[0]} is not in pvectl's list of models: it may be a GeForce")
    return None


def _unread(*facts: object) -> list[str]:
    return list(dict.fromkeys(fact.unknown for fact in facts if isinstance(fact, Unknown)))


def _platform_doubts(path: GpuPath, host: HostFacts) -> list[str]:
    """Return why it is not known whether the root complex forwards from port to port."""
    if isinstance(host.cpu_vendor, Unknown):
        return [f"the CPU: {host.cpu_vendor.unknown}"]
    if host.cpu_vendor == "AuthenticAMD":
        return []
    if host.cpu_vendor != "GenuineIntel":
        return [f"nothing is known about root ports of {host.cpu_vendor}"]
    if path.same_socket is True:
        return ["not every Intel root complex sends peer traffic on to a root port"]
    return ["Intel across sockets: whether UPI forwards peer traffic is not known"]


def _platform_facts(path: GpuPath, host: HostFacts) -> list[str]:
    if host.cpu_vendor == "AuthenticAMD" and not isinstance(path.common, str):
        far = path.path == "SYS"
        return ["AMD since Zen forwards between root ports" + (", across NUMA nodes at less bandwidth" if far else "")]
    return []


def _translation(pair: tuple[PciFunction, PciFunction], host: HostFacts) -> tuple[list[str], list[str]]:
    """Return what translated DMA costs, and what is not known about it."""
    if host.iommu_is_on is False:
        return [], []
    types = [host.domain_types.get(fn.bdf) for fn in pair]
    dark = _unread(*types)
    if dark:
        return [], [f"IOMMU domain: {dark[0]}"]
    if any(kind in ("DMA", "DMA-FQ") for kind in types):
        return ["the host's IOMMU translates (no iommu=pt): slower, and collectives over many GPUs may hang"], []
    return [], []


def _say(verdict: Verdict, *reasons: str) -> Forecast:
    return Forecast(verdict=verdict, reasons=tuple(reasons))
