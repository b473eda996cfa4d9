"""The CUDA level: each GPU makes a context, allocates, and gives back what was written to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from provision.guest.onboard.child import Say
from provision.guest.onboard.errors import CallFailed, Missing, attempt

CUDA_BYTES = 1 << 20


def cuda_level(libraries: Any, say: Say) -> None:
    """Say the level's answer, and before it each place at which it could hang."""
    say(_answer(libraries, lambda place: say({"at": place})))


def _answer(libraries: Any, at: Callable[[str], None]) -> dict[str, Any]:
    try:
        at("cuInit")
        cuda = libraries.cuda()
        gpus = []
        for index in range(cuda.count()):
            at(f"GPU {index}")
            gpus.append(gpu(cuda, index))
        return {"state": "ok", "version": attempt(cuda.version), "library": attempt(cuda.library), "gpus": gpus}
    except Missing as error:
        return {"state": "missing", "reason": str(error)}
    except CallFailed as error:
        return {"state": "failed", "reason": str(error), "code": error.code}


def gpu(cuda: Any, index: int) -> dict[str, Any]:
    """One GPU: ``data`` is true where bytes came back, {"error"} names the call at which it ended."""
    return {
        "bdf": attempt(partial(cuda.bdf, index)),
        "facts": attempt(partial(cuda.facts, index)),
        "data": attempt(partial(write_and_read_back, cuda, index)),
    }


def write_and_read_back(cuda: Any, index: int) -> bool:
    """Allocate, copy random bytes in, copy them out, compare."""
    cuda.open(index)
    try:
        address = cuda.alloc(index, CUDA_BYTES)
        sent = os.urandom(CUDA_BYTES)
        cuda.upload(index, address, sent)
        same: bool = cuda.download(index, address, CUDA_BYTES) == sent
        cuda.free(index, address)
        return same
    finally:
        cuda.close(index)
