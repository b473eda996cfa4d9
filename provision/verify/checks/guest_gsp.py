"""GSP firmware runs on every GPU and is the driver's own version."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts, NvmlGpu
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided

_HINT = (
    "read the guest's kernel log for GSP lines; a WPR2 line means the GPU was not reset: stop the VM, start it again"
)


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    if isinstance(guest.nvml, Unknown) or isinstance(guest.driver, Unknown):
        why = guest.nvml if isinstance(guest.nvml, Unknown) else guest.driver
        return undecided(f"NVML {why}", "install or repair the NVIDIA driver in the guest")
    if not guest.nvml:
        return failed("NVML sees no GPU", _HINT)
    unclear = [
        gpu for gpu in guest.nvml if isinstance(gpu.gsp_version, Unknown) or isinstance(gpu.gsp_enabled, Unknown)
    ]
    wrong = [gpu for gpu in guest.nvml if gpu not in unclear and not _is_up(gpu, guest.driver)]
    if wrong:
        return failed(
            "; ".join(f"GPU {g.index}: firmware {g.gsp_version}, driver {guest.driver}" for g in wrong), _HINT
        )
    if unclear:
        first = unclear[0]
        why_not = first.gsp_version if isinstance(first.gsp_version, Unknown) else first.gsp_enabled
        return undecided(f"GPU {first.index}: {why_not}", "use a driver whose NVML reports the GSP firmware")
    return passed(f"{guest.driver} on {len(guest.nvml)} GPUs, equal to the driver")


def _is_up(gpu: NvmlGpu, driver: str) -> bool:
    return gpu.gsp_enabled is True and gpu.gsp_version == driver
