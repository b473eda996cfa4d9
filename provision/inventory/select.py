"""Which GPUs of a host a selector means.  Pure: the host model in, functions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provision.errors import InventoryError
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.inventory.models import GpuSelector
from provision.pci.model import PciFunction
from provision.pci.model_names import model_name

HOSTPCI_LIMIT = 16
"""``hostpci0`` to ``hostpci15``: what Proxmox gives one VM (qemu-server, MAX_HOSTPCI_DEVICES)."""


def select_gpus(
    selector: GpuSelector, model: HostModel, *, limit: int | None = HOSTPCI_LIMIT, subject: str = "gpus"
) -> tuple[PciFunction, ...]:
    """Return the GPUs that ``selector`` means on this host, in BDF order.

    ``limit`` is how many one VM can take (``None`` for a mapping, which has no such limit) and
    ``subject`` names the place in the inventory for messages.  Raises :class:`InventoryError`
    where a named GPU is not there, a needed fact is unknown, nothing is left, or too much is.
    """
    chosen = _chosen(selector, model, subject)
    if limit is not None and len(chosen) > limit:
        raise _refuse(
            model,
            subject,
            f"it means {len(chosen)} GPUs and Proxmox gives one VM at most {limit} (hostpci0 to hostpci{limit - 1})",
            f"take fewer, for example count: {limit}, or spread them over several VMs",
        )
    return chosen


def describe_gpu(gpu: PciFunction) -> str:
    """Return one line that tells a GPU from its neighbors: address, id, name, NUMA node, slot."""
    parts = [f"{gpu.bdf} {gpu.ids}"]
    if name := model_name(gpu.ids):
        parts.append(name)
    if isinstance(gpu.numa_node, int):
        parts.append(f"NUMA {gpu.numa_node}")
    if isinstance(gpu.slot_name, str):
        parts.append(f"slot {gpu.slot_name}")
    return ", ".join(parts)


def _chosen(selector: GpuSelector, model: HostModel, subject: str) -> tuple[PciFunction, ...]:
    gpus = tuple(sorted(model.gpus(), key=lambda f: f.bdf))
    if not gpus:
        raise _refuse(
            model, subject, "this host has no NVIDIA GPU", "check with lspci -nn whether the host sees the card"
        )
    gpus = _named(selector, model, gpus, subject)
    gpus = _by_model(selector, model, gpus, subject)
    if selector.slot:
        gpus = _by_slot(selector, model, gpus, subject)
    if selector.numa is not None:
        gpus = _matching(gpus, lambda f: f.numa_node, {selector.numa}, "numa", model, subject)
    if selector.all_but is not None:
        out = {f.bdf for f in _chosen(selector.all_but, model, f"{subject}.all but")}
        gpus = tuple(f for f in gpus if f.bdf not in out)
    return _counted(selector, model, gpus, subject)


def _named(
    selector: GpuSelector, model: HostModel, gpus: tuple[PciFunction, ...], subject: str
) -> tuple[PciFunction, ...]:
    """Return the GPUs whose addresses are named; every name must be a GPU that is there."""
    if not selector.bdf:
        return gpus
    there = {f.bdf for f in gpus}
    wrong = [_not_a_gpu(bdf, model) for bdf in selector.bdf if bdf not in there]
    if wrong:
        raise _refuse(model, subject, "; ".join(wrong), "name GPUs of this list, function 0")
    return tuple(f for f in gpus if f.bdf in selector.bdf)


def _not_a_gpu(bdf: str, model: HostModel) -> str:
    other = model.function(bdf)
    if other is None:
        return f"there is no device at {bdf}"
    return f"{bdf} is no NVIDIA GPU (vendor and device {other.ids}, class {other.class_code:06x})"


def _by_model(
    selector: GpuSelector, model: HostModel, gpus: tuple[PciFunction, ...], subject: str
) -> tuple[PciFunction, ...]:
    if selector.model is None:
        return gpus
    wanted = selector.model.casefold()
    found = tuple(f for f in gpus if f.ids == wanted or wanted in (model_name(f.ids) or "").casefold())
    if not found:
        raise _refuse(
            model,
            subject,
            f"no GPU here is model {selector.model!r}",
            "write an id such as 10de:2bb5, or a part of a name",
        )
    return found


def _by_slot(
    selector: GpuSelector, model: HostModel, gpus: tuple[PciFunction, ...], subject: str
) -> tuple[PciFunction, ...]:
    found = _matching(gpus, lambda f: f.slot_name, set(selector.slot), "slot", model, subject)
    missing = [slot for slot in selector.slot if slot not in {f.slot_name for f in found}]
    if missing:
        raise _refuse(model, subject, f"no GPU here is in slot {', '.join(missing)}", "name slots of this list")
    return found


def _matching(
    gpus: tuple[PciFunction, ...],
    fact: Callable[[PciFunction], Maybe[int | str | None]],
    wanted: set[int] | set[str],
    key: str,
    model: HostModel,
    subject: str,
) -> tuple[PciFunction, ...]:
    """Return the GPUs whose ``fact`` is wanted; an unknown fact decides nothing, so it is an error."""
    for gpu in gpus:
        value = fact(gpu)
        if isinstance(value, Unknown):
            raise _refuse(
                model, subject, f"{key} of {gpu.bdf} is {value}", value.supply or "name the GPUs by bdf instead"
            )
    return tuple(f for f in gpus if fact(f) in wanted)


def _counted(
    selector: GpuSelector, model: HostModel, gpus: tuple[PciFunction, ...], subject: str
) -> tuple[PciFunction, ...]:
    if not gpus:
        raise _refuse(model, subject, "no GPU is left by these conditions", "loosen them; every GPU is listed here")
    if selector.count is None:
        return gpus
    if selector.count > len(gpus):
        raise _refuse(
            model, subject, f"count: {selector.count} and only {len(gpus)} match", "lower count or loosen the rest"
        )
    return gpus[: selector.count]


def _refuse(model: HostModel, subject: str, cause: str, hint: str) -> InventoryError:
    host = model.hostname if isinstance(model.hostname, str) else "this host"
    return InventoryError(f"Unable to select GPUs for {subject} on {host}: {cause}", hint, tuple(_list(model.gpus())))


def _list(gpus: Iterable[PciFunction]) -> list[str]:
    return [f"there is {describe_gpu(gpu)}" for gpu in gpus]
