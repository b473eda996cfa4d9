"""Which environment NCCL should get in this guest, each variable because of something that was measured."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.guest.nccl import Advice, NcclAnswer, Run, is_proven, largest

FASTER = 0.9
"""A setting counts as faster where its time is below nine tenths of the other's: less is noise in a guest."""


def advise(answer: NcclAnswer) -> Maybe[tuple[Advice, ...]]:
    """Return the variables to set; an empty tuple means NCCL's own choice is right.

    P2P stays off unless a run with it came to its end with every value right: being fast is no reason.  Unknown where
    nothing ran, or where a fault was put in on purpose.
    """
    if answer.fault is not None:
        return Unknown(unknown="a fault was put in on purpose", supply="run the ladder without a fault")
    failed = next((run for run in answer.of("p2p-off") if is_proven(run) is False), None)
    if failed is not None:
        why = f"without P2P too a run over {failed.count} GPUs ended {_fault(failed)}: no setting helps"
        return Unknown(unknown=why, supply="look at the guest's kernel log and at each GPU alone")
    off = largest(answer, "p2p-off")
    if answer.state != "ok" or off is None:
        why = answer.reason or "no run without P2P came to its end"
        return Unknown(unknown=why, supply="run the probe with --nccl on an idle guest")
    p2p = _p2p(answer, off)
    return (*p2p, *_staging(answer, off, is_staged=any(advice.value == "1" for advice in p2p)))


def _p2p(answer: NcclAnswer, off: Run) -> tuple[Advice, ...]:
    bad = next((run for run in answer.runs if _speaks_against_p2p(run)), None)
    if bad is not None:
        return (_disable(f"{bad.setting} with {bad.count} GPUs ended {_fault(bad)}"),)
    on = largest(answer, "p2p-on")
    if on is None or on.count < off.count:
        return (_disable(f"no run with P2P on all {off.count} GPUs has come to its end"),)
    if on.families == {"P2P"}:
        return ()
    far = largest(answer, "p2p-any-distance")
    if far is not None and far.count == on.count and far.families == {"P2P"} and _is_faster(far, on):
        return (
            Advice(
                name="NCCL_P2P_LEVEL",
                value="SYS",
                because=f"NCCL's own limit of distance leaves P2P unused; with SYS all {far.count} GPUs use it, every "
                f"value was right and {_compare(far, on)}",
            ),
        )
    return ()


def _staging(answer: NcclAnswer, off: Run, *, is_staged: bool) -> tuple[Advice, ...]:
    """Advice on shared memory counts where transfers go through it."""
    on = largest(answer, "p2p-on")
    if not is_staged and (on is None or "SHM" not in on.families):
        return ()
    found = []
    for setting, name, value in (
        ("shm-files", "NCCL_CUMEM_HOST_ENABLE", "0"),
        ("shm-copy-engine", "NCCL_SHM_USE_CUDA_MEMCPY", "1"),
    ):
        run = largest(answer, setting)
        if run is not None and run.count == off.count and is_proven(run) is True and _is_faster(run, off):
            found.append(Advice(name=name, value=value, because=_compare(run, off)))
    return tuple(found[:1])


def _disable(because: str) -> Advice:
    return Advice(name="NCCL_P2P_DISABLE", value="1", because=because)


def _speaks_against_p2p(run: Run) -> bool:
    """Settings of a file that NCCL itself refuses say nothing of P2P."""
    is_refused = run.setting == "given" and run.state == "failed" and not run.wrong
    return _used_p2p(run) and is_proven(run) is False and not is_refused


def _used_p2p(run: Run) -> bool:
    """Whether the run was one in which NCCL took P2P, or might have: it did not come far enough to say."""
    allowed = run.env.get("NCCL_P2P_DISABLE", "0") == "0"
    return allowed and run.state != "skipped" and ("P2P" in run.families or not run.families)


def _fault(run: Run) -> str:
    return "with wrong values" if run.wrong else f"in {run.state} ({run.reason})"


def _is_faster(run: Run, other: Run) -> bool:
    """Faster at one size at least and slower at none, by all-reduce: what a server does."""
    ratios = [mine / theirs for _, mine, theirs in _times(run, other)]
    return bool(ratios) and min(ratios) < FASTER and max(ratios) < 1.0 / FASTER


def _times(run: Run, other: Run) -> list[tuple[int, float, float]]:
    found = []
    for step in run.steps:
        same = other.step(step.collective, step.bytes)
        if step.collective == "all_reduce" and step.us and same is not None and same.us:
            found.append((step.bytes, step.us, same.us))
    return found


def _compare(run: Run, other: Run) -> str:
    """Say the size at which the gain is largest."""
    size, mine, theirs = min(_times(run, other), key=lambda each: each[1] / each[2])
    return f"an all-reduce of {size} bytes over {run.count} GPUs took {mine:.1f} us, and {theirs:.1f} us without"
