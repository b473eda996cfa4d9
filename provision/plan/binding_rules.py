"""Which cards may be bound by model, which must stay powered, and what else claims a card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.boot.cmdline import Cmdline
from provision.boot.modprobe import vfio_ids
from provision.errors import InventoryError
from provision.evidence import Unknown
from provision.host.boot_files import modprobe_files
from provision.host.model import HostModel
from provision.pci.model import PciFunction

HOST_DRIVERS = frozenset({"nvidia", "nouveau", "nova_core", "nvidiafb"})
_NVIDIA = 0x10DE
_BLACKWELL = range(0x2B80, 0x3000)
"""Device ids of GB20x (GeForce RTX 50, RTX PRO Blackwell), which is reported not to come back from reset or sleep."""


def must_stay_powered(function: PciFunction) -> bool:
    """Whether a card is of a kind for which failed resets and wake-ups from D3 are widely reported."""
    return function.is_nvidia_gpu and function.device in _BLACKWELL


def is_without_host_use(model: HostModel, bound: Sequence[PciFunction]) -> bool:
    """Whether no NVIDIA device stays with a driver of the host: only then may those drivers be kept from loading."""
    given = {function.bdf for function in bound}
    left = [f for f in model.pci if f.vendor == _NVIDIA and f.bdf not in given]
    return not any(f.is_nvidia_gpu or isinstance(f.driver, Unknown) or f.driver in HOST_DRIVERS for f in left)


def ids_by_model(name: str, model: HostModel, bound: Sequence[PciFunction]) -> tuple[str, ...]:
    """Return the ids that bind ``bound`` and nothing else.

    Raises InventoryError where a card of one of the models stays with the host: ids= would take it as well.
    """
    given = {function.bdf for function in bound}
    wanted = tuple(dict.fromkeys(function.ids for function in bound))
    left = [f for f in model.pci if f.ids in wanted and f.bdf not in given]
    if left:
        names = ", ".join(f"{f.bdf} ({f.ids})" for f in left)
        raise InventoryError(
            f"Unable to plan for {name}: policies.binding is model, and {names} of the same model stays with the host; "
            "vfio-pci's ids= takes every card of a model",
            "set policies.binding to per-device, or give every card of the model to a guest",
        )
    return wanted


def rival_claims(model: HostModel, bound: Sequence[PciFunction]) -> Iterator[str]:
    """Say which cards that stay with the host may end on vfio-pci all the same, and why."""
    given = {function.bdf for function in bound}
    models = {function.ids for function in bound}
    for function in model.pci:
        if function.bdf not in given and function.ids in models and function.driver is None:
            yield (
                f"{function.bdf} stays with the host and has no driver now: when a guest starts with a card of its "
                f"model ({function.ids}), Proxmox tells vfio-pci its id (new_id), which counts for every card of the "
                "model without a driver. Load the host's driver before guests start"
            )
    for source, ids in _given_ids(model):
        taken = [f.bdf for f in model.pci if f.ids in ids and f.bdf not in given and not f.is_bridge]
        if taken:
            yield f"{source} binds {', '.join(taken)} to vfio-pci by model, though no guest of this plan has them"


def _given_ids(model: HostModel) -> Iterator[tuple[str, frozenset[str]]]:
    files = modprobe_files(model)
    for path, file in () if isinstance(files, Unknown) else files.items():
        yield f"ids= in {path}", frozenset(vfio_ids([file]))
    text = model.kernel.running_cmdline
    values = () if isinstance(text, Unknown) else Cmdline.parse(text).values("vfio-pci.ids")
    for value in values:
        yield "vfio-pci.ids= on the kernel command line", frozenset((value or "").lower().split(","))
