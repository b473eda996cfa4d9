"""Everything by the API's token, and only what Proxmox leaves to root@pam by the root shell beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from provision.pve.caller import Caller
from provision.pve.objects import PveObjects
from provision.pve.privileges import image_path, root_keys
from provision.pve.session import PveSession, TaskResult
from provision.pve.tasks import Clock
from provision.pve.vm_power import silent


class LeastWay(PveObjects):
    """A :class:`provision.pve.session.PveSession` of two ways; ``open_root`` opens the second when it is needed."""

    def __init__(
        self,
        caller: Caller,
        node: str,
        open_root: Callable[[], PveSession],
        *,
        clock: Clock | None = None,
        tell: Callable[[str], None] = silent,
    ) -> None:
        super().__init__(caller, node, clock=clock, tell=tell)
        self._open_root = open_root

    @property
    def has_root(self) -> bool:
        return True

    @cached_property
    def _root(self) -> PveSession:
        return self._open_root()

    def vm_set(self, vmid: int, set: dict[str, str], delete: tuple[str, ...], digest: str) -> None:
        """Write what the token may first: where it is refused nothing of root's is written."""
        before = self.vm_config(vmid)
        keys = (*set, *delete)
        # Of an option with a pending change both values count, and one of them is not read here.
        root = {*root_keys(keys, set, before.values), *(key for key in keys if key in before.pending)}
        own = [key for key in keys if key not in root]
        if own or not root:
            super().vm_set(vmid, _only(set, own), tuple(key for key in delete if key in own), digest)
        if root:
            current = self.vm_config(vmid).digest if own else digest
            self._as_root(vmid, sorted(root))
            self._root.vm_set(vmid, _only(set, root), tuple(key for key in delete if key in root), current)

    def vm_create(self, vmid: int, options: Mapping[str, str], *, progress: Callable[[str], None]) -> TaskResult:
        """Make the VM by the token and add root's options to it; by root where its disk comes from a path."""
        if image_path(options) is not None:
            self._as_root(vmid, ["the image by its path"])
            return self._root.vm_create(vmid, options, progress=progress)
        root = root_keys(options, options, {})
        result = super().vm_create(vmid, {k: v for k, v in options.items() if k not in root}, progress=progress)
        if root and result.ok:
            self._as_root(vmid, sorted(root))
            self._root.vm_set(vmid, _only(options, root), (), self.vm_config(vmid).digest)
        return result

    def vm_showcmd(self, vmid: int) -> str | None:
        return self._root.vm_showcmd(vmid)

    def _as_root(self, vmid: int, what: list[str]) -> None:
        self._tell(f"VM {vmid}: {', '.join(what)} by the root shell, as no token may")


def _only(options: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key in keys}
