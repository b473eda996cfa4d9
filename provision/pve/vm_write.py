"""Set options of a VM although a refused write is not atomic.

Proxmox checks some options only while it writes them one by one in random order; what it had written
before the refusal stays in ``[PENDING]``.  So each option that may be refused goes alone and first, and
after a refusal the pending changes are read and named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from provision.errors import PvectlError, PveError, StaleDigest
from provision.pve.disk_option import is_made_as
from provision.pve.privileges import is_root_only
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.session import VmConfig

_RISKY = re.compile(r"hostpci\d+|usb\d+|serial\d+|cpu")
"""Checked for more than a privilege on the VM: a mapping, a raw device, a CPU model."""


class _Vms(Protocol):
    @property
    def is_root(self) -> bool: ...

    def vm_config(self, vmid: int) -> VmConfig: ...


class VmWrite:
    """One change of one VM's options."""

    def __init__(self, vms: _Vms, vmid: int, put: Callable[[int, Mapping[str, str], Callable[[], bool]], None]) -> None:
        self._vms = vms
        self._vmid = vmid
        self._put = put

    def run(self, set: Mapping[str, str], delete: tuple[str, ...], digest: str) -> None:
        """Write ``set`` and ``delete`` if the configuration still has ``digest``.

        Raises the refusal with a note of what was left; the caller reads again before it goes on.
        """
        both = sorted({*set} & {*delete})
        if both or not (set or delete):
            what = f"{', '.join(both)} set and deleted at once" if both else "there is nothing to set or delete"
            raise PveError(f"Unable to change VM {self._vmid}: {what}")
        for number, keys in enumerate(self._steps(set, delete)):
            current = digest if number == 0 else self._digest()
            self._step({key: set[key] for key in keys if key in set}, [key for key in keys if key in delete], current)

    def _steps(self, set: Mapping[str, str], delete: tuple[str, ...]) -> list[list[str]]:
        """Return keys that go together.  Root's only refusals come before anything is written."""
        keys = [*set, *delete]
        if self._vms.is_root:
            return [keys]
        alone = sorted(key for key in keys if _RISKY.fullmatch(key) or is_root_only(key))
        rest = [key for key in keys if key not in alone]
        return [[key] for key in alone] + ([rest] if rest else [])

    def _digest(self) -> str:
        return self._vms.vm_config(self._vmid).digest

    def _step(self, values: Mapping[str, str], delete: list[str], digest: str) -> None:
        params = {**values, "digest": digest}
        if delete:
            params["delete"] = ",".join(delete)
        wanted: dict[str, str | None] = {**values, **dict.fromkeys(delete)}
        try:
            self._put(self._vmid, params, lambda: self._has(wanted))
        except StaleDigest:
            raise
        except PveError as error:
            self._tell_what_was_left(error)
            raise

    def _has(self, wanted: Mapping[str, str | None]) -> bool:
        now = self._vms.vm_config(self._vmid).values
        return all(_same(now.get(key), value) for key, value in wanted.items())

    def _tell_what_was_left(self, error: PveError) -> None:
        """Add to the refusal what it left behind; the refusal itself stays the error."""
        try:
            left = sorted(self._vms.vm_config(self._vmid).pending)
        except PvectlError as second:
            _add(error, f"what it left behind could not be read ({second.message})")
            return
        if left:
            _add(error, f"left pending: {', '.join(left)}")
            revert = f"drop what is pending with: qm set {self._vmid} --revert {','.join(left)}"
            error.hint = f"{error.hint}; {revert}" if error.hint else revert


def _add(error: PveError, note: str) -> None:
    error.message = f"{error.message}; {note}"
    error.args = (error.message,)


def _same(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return one == other
    if is_made_as(one, other):
        return True
    try:
        return "=" in one and parse(one, "") == parse(other, "")
    except PropertyStringError:
        return False
