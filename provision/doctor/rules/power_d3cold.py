"""A GPU is without power."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import title
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "power-d3cold"
SOURCE = "Linux, Documentation/power/pci.rst; drivers/vfio/pci/vfio_pci_core.c, disable_idle_d3"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        if isinstance(gpu.power_state, Unknown):
            yield undecided(ID, gpu.power_state, f"power state of {gpu.bdf}")
        elif gpu.power_state == "D3cold":
            yield found(
                ID,
                "warning",
                (gpu.bdf,),
                f"{title(gpu)} is in D3cold",
                (cite.hardware(f"{gpu.bdf}/power_state", "D3cold"),),
                "some cards do not come back: Unable to change power state from D3cold to D0, device inaccessible",
                f"keep it awake: echo 0 > /sys/bus/pci/devices/{gpu.bdf}/d3cold_allowed, or vfio-pci disable_idle_d3=1 "
                "(policies.binding in the inventory)",
                source=SOURCE,
                cause="in D3cold",
            )


RULE = Rule(ID, "A GPU is in D3cold: its power is cut", check)
