"""A service keeps GPUs busy that a guest is to get."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import given, titles
from provision.doctor.finding import Evidence
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "persistenced-on-vfio-host"
SOURCE = "NVIDIA, Driver Persistence documentation"

UNIT = "nvidia-persistenced.service"


def check(model: HostModel) -> Outcome:
    services = model.kernel.services
    if isinstance(services, Unknown):
        yield undecided(ID, services, "the running services")
        return
    if UNIT not in services:
        return
    wanted = given(model)
    busy = [gpu for gpu in model.gpus() if gpu.driver == "nvidia"]
    if isinstance(wanted, Unknown):
        yield from open_question(ID, (wanted, "the devices of the VMs"))
        return
    held = [gpu for gpu in busy if gpu.bdf in wanted]
    if held:
        yield found(
            ID,
            "warning",
            (gpu.bdf for gpu in held),
            f"{UNIT} runs, and these GPUs of VMs are with the host's driver: {titles(held)}",
            (
                Evidence(source=f"/sys/fs/cgroup/system.slice/{UNIT}", excerpt="runs"),
                *(cite.hardware(f"{gpu.bdf}/driver", "nvidia") for gpu in held),
            ),
            "it keeps the device files open: taking the GPU from the driver hangs, and the VM does not start",
            f"systemctl disable --now {UNIT}   # it belongs in the guest",
            source=SOURCE,
        )
    yield from open_question(
        ID, *((gpu.driver, f"driver of {gpu.bdf}") for gpu in model.gpus() if gpu.bdf in wanted and not held)
    )


RULE = Rule(ID, "nvidia-persistenced runs on the host and holds a GPU for a guest", check)
