"""The command line that the running kernel was started with."""

from __future__ import annotations

from typing import Any

from provision.boot.cmdline import Cmdline, canonical
from provision.errors import PvectlError, Undecided
from provision.verify.modules.base import name_of

PATH = "/proc/cmdline"


class KernelCmdline:
    """``"iommu=pt" in cmdline``, ``cmdline.value("iommu")``.  Dashes and underscores in names are the same."""

    def __init__(self, host: Any) -> None:
        try:
            done = host.run("cat %s", PATH)
        except (RuntimeError, PvectlError, OSError) as error:
            raise Undecided(f"Unable to read {PATH} on {name_of(host)}: {error}") from error
        if done.rc != 0:
            raise Undecided(f"Unable to read {PATH} on {name_of(host)}: {done.stderr.strip()}")
        self.text = str(done.stdout).strip()
        self._parsed = Cmdline.parse(self.text)

    def __contains__(self, token: str) -> bool:
        """Whether a parameter stands there: ``quiet``, ``iommu=pt`` exactly, or a name with any value."""
        wanted = Cmdline.parse(token).tokens
        if len(wanted) != 1:
            raise ValueError(f"{token!r} is not one parameter")
        [one] = wanted
        return any(t.key == one.key and (one.value is None or t.value == one.value) for t in self._parsed.tokens)

    contains = __contains__

    def values(self, name: str) -> tuple[str | None, ...]:
        """Return every value of a parameter in order; ``None`` for one without ``=``."""
        key = canonical(name)
        return tuple(token.value for token in self._parsed.tokens if token.key == key)

    def value(self, name: str) -> str | None:
        """Return the last value, which mostly counts; ``None`` where the parameter is not there or has none."""
        found = self.values(name)
        return found[-1] if found else None
