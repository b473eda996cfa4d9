"""NVIDIA GPUs of a machine that uses them itself: what driver, NVML and CUDA say, by pvectl's probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from provision.errors import Undecided
from provision.evidence import Maybe, Unknown
from provision.guest.bundle import probe_source
from provision.guest.facts import GuestFacts, parse_probe
from provision.guest.levels import LEVELS, Drop, Level, counts, first_drop
from provision.verify.modules.base import name_of, run_python

T = TypeVar("T")


def probe(host: Any, arguments: Sequence[str] = (), vmid: int = 0) -> GuestFacts:
    """Run the probe over ``host.run`` and read its answer.  Raises Undecided where there is none."""
    return parse_probe(run_python(host, probe_source(), arguments), vmid)


class NvidiaGpus:
    """The GPUs as one run of the probe sees them.  What could not be read raises Undecided when it is asked for."""

    def __init__(self, host: Any, facts: GuestFacts | None = None) -> None:
        self.facts = probe(host) if facts is None else facts
        self._where = name_of(host)

    @property
    def count(self) -> int:
        """How many the driver's management library shows."""
        return len(self._nvml)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known(gpu.name, "a GPU's name") for gpu in self._nvml)

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(self._known(gpu.uuid, "a GPU's UUID") for gpu in self._nvml)

    @property
    def driver(self) -> str:
        """Version of the driver."""
        return self._known(self.facts.driver, "the driver's version")

    @property
    def gsp(self) -> tuple[str, ...]:
        """Version of the GSP firmware on each GPU; ``N/A`` where it does not run."""
        return tuple(self._known(gpu.gsp_version, "a GPU's GSP version") for gpu in self._nvml)

    @property
    def data_check(self) -> dict[str, bool]:
        """Whether bytes written by CUDA came back equal, by the GPU's address."""
        return {
            str(gpu.bdf): self._known(gpu.data, f"the data of {gpu.bdf}")
            for gpu in self._known(self.facts.cuda, "what CUDA sees")
        }

    def on_level(self, level: Level) -> tuple[str, ...]:
        """Return the addresses of the GPUs that a level sees: ``PCI``, ``BAR``, ``module``, ``driver``, ``NVML``,
        ``CUDA``."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}")
        return self._known(counts(self.facts)[level], f"level {level}")

    def first_drop(self, expected: int | None = None) -> Drop | None:
        """Return the first level at which GPUs are missing, ``None`` where all of them are there to the end."""
        found = first_drop(self.facts, expected)
        if isinstance(found, Unknown):
            self._known(found, "where GPUs are lost")
            return None
        return found

    @property
    def _nvml(self) -> tuple[Any, ...]:
        return self._known(self.facts.nvml, "what NVML sees")

    def _known(self, value: Maybe[T], what: str) -> T:
        if isinstance(value, Unknown):
            raise Undecided(f"Unable to tell {what} on {self._where}: {value.unknown}", value.supply)
        return value
