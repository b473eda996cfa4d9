"""Claims about a Proxmox host that gives GPUs to guests; what goes to guests is the inventory's to say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.errors import InventoryError, Undecided
from provision.host.from_text import model_from_text
from provision.inventory.select import select_gpus
from provision.pci.model import PciFunction
from provision.verify.modules.iommu_groups import IommuGroups
from provision.verify.modules.kernel_cmdline import KernelCmdline
from provision.verify.modules.pci_devices import PciDevice, PciDevices
from provision.verify.suite.conftest import Machine

pytestmark = pytest.mark.pvectl_claim


@pytest.fixture
def given(
    machine: Machine, pci_devices: PciDevices, record_figure: Callable[[str, object], None]
) -> tuple[PciDevice, ...]:
    """The GPUs that the inventory gives to VMs."""
    machine.need("host")
    entry = machine.need_entry()
    functions = tuple(_function(device) for device in pci_devices)
    model = model_from_text(()).model.model_copy(update={"pci": functions})
    found: dict[str, PciFunction] = {}
    for vmid, wish in entry.host.vms.items():
        try:
            found |= {gpu.bdf: gpu for gpu in select_gpus(wish.gpus, model, subject=f"vms.{vmid}.gpus")}
        except InventoryError as error:
            raise Undecided(error.message, error.hint) from error
    if not found:
        pytest.skip(f"not applicable: the inventory gives no GPU of {machine.name} to a VM")
    record_figure("gpus", len(found))
    return tuple(device for device in pci_devices if device.bdf in found)


def _function(device: PciDevice) -> PciFunction:
    return PciFunction(
        bdf=device.bdf,
        vendor=int(device.vendor, 16),
        device=int(device.device, 16),
        class_code=int(device.class_code, 16),
        driver=device.driver,
        numa_node=device.numa_node,
    )


def test_the_iommu_is_on(machine: Machine, iommu_groups: IommuGroups) -> None:
    machine.need("host")
    assert iommu_groups.is_on, "no device is in an IOMMU group"


def test_gpus_are_bound_to_vfio(given: tuple[PciDevice, ...]) -> None:
    wrong = {device.bdf: device.driver for device in given if device.driver != "vfio-pci"}
    assert not wrong


def test_gpus_are_alone_in_their_groups(given: tuple[PciDevice, ...], iommu_groups: IommuGroups) -> None:
    if not iommu_groups.is_on:
        raise Undecided("Unable to judge groups: the IOMMU is off")
    own = {device.bdf for device in given}
    wrong = {
        device.bdf: [other.bdf for other in iommu_groups.strangers(device.bdf) if other.bdf not in own]
        for device in given
    }
    assert not {bdf: others for bdf, others in wrong.items() if others}


def test_the_command_line_is_as_the_policies_say(machine: Machine, kernel_cmdline: KernelCmdline) -> None:
    machine.need("host")
    wanted = machine.need_entry().policies.iommu
    if wanted != "pt":
        pytest.skip(f"not applicable: policies.iommu is {wanted}")
    assert "iommu=pt" in kernel_cmdline, kernel_cmdline.text
