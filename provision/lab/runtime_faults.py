"""Faults of the running servers: credentials, connections, speed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from provision.errors import UsageError
from provision.lab import faults, reset_faults
from provision.lab.proxmox.access import Caller
from provision.lab.site import TOKEN
from provision.lab.ssh_server import make_key

if TYPE_CHECKING:
    from provision.lab.lab import Lab

CUT = re.compile(r"cut-after-(\d+)-frames")
SLOW_SECONDS = 0.5
QUICK = 1 / 60
READ_ONLY = frozenset({"Mapping.Audit", "VM.Audit", "Sys.Audit"})


async def _wrong_token(lab: Lab) -> None:
    access = lab.host.node.access
    _secret, caller = access.tokens[f"root@pam!{TOKEN}"]
    access.add_token(caller, secrets.token_hex(16))


async def _token_without_privilege(lab: Lab) -> None:
    access = lab.host.node.access
    secret, _caller = access.tokens[f"root@pam!{TOKEN}"]
    access.add_token(Caller(f"root@pam!{TOKEN}", acl={"/": READ_ONLY}), secret)


async def _api_down(lab: Lab) -> None:
    await lab.api.stop()


async def _changed_host_key(lab: Lab) -> None:
    """Take a new host key while the client's known_hosts keeps the old one."""
    make_key(lab.site.host_key)
    await lab.ssh.stop()
    if lab.host.is_up:
        await lab.ssh.start()


async def _slow(lab: Lab) -> None:
    lab.host.delay = lab.api.delay = SLOW_SECONDS


async def _stubborn_guest(lab: Lab) -> None:
    lab.host.node.stubborn |= set(lab.host.node.vmids())


async def _no_quorum(lab: Lab) -> None:
    from provision.lab.proxmox.node import QUORUM_LOST  # noqa: PLC0415 - beside its use

    lab.host.root.write(QUORUM_LOST, "")


async def _network_lost(lab: Lab) -> None:
    lab.host.network.bring_in()


async def _quick_timers(lab: Lab) -> None:
    lab.host.timers.scale = QUICK


RUNTIME: dict[str, tuple[str, Callable[[Lab], Awaitable[None]]]] = {
    "api-down": ("the API refuses connections", _api_down),
    "changed-host-key": ("the host shows another SSH key than the known one", _changed_host_key),
    "network-lost": ("with another kernel command line than the present one the host has no network", _network_lost),
    "no-quorum": ("the cluster has lost its quorum: /etc/pve is read-only", _no_quorum),
    "quick-timers": ("a minute of a systemd timer lasts a second", _quick_timers),
    "slow": ("every command and API call takes half a second", _slow),
    "stubborn-guest": ("guests ignore a shutdown request", _stubborn_guest),
    "token-without-privilege": ("the API token may only look", _token_without_privilege),
    "wrong-token": ("the API does not know the token's secret", _wrong_token),
}


def names() -> tuple[str, ...]:
    return (*RUNTIME, *(name for name in ("cut-after-1-frames",) if name))


def all_faults() -> dict[str, str]:
    """Return every fault with one line of meaning; ``cut-after-N-frames`` stands for any N."""
    runtime = {name: meaning for name, (meaning, _act) in RUNTIME.items()}
    runtime |= reset_faults.MEANING
    return (
        runtime | {"cut-after-N-frames": "the next connection is cut after N frames of its answer"} | faults.summaries()
    )


async def bring_in(lab: Lab, name: str) -> None:
    """Bring in one fault.  Raises UsageError where there is none of that name."""
    cut = CUT.fullmatch(name)
    if cut is not None:
        lab.host.children.cut_after = int(cut[1])
    elif reset_faults.NAME.fullmatch(name):
        lab.host.resets.plan(name)
    elif name in RUNTIME:
        await RUNTIME[name][1](lab)
    elif name in faults.summaries():
        faults.break_machine(lab.machine, lab.site.root, name)
    else:
        raise UsageError(
            f"Unable to break the lab: there is no fault {name}", f"take one of {', '.join(sorted(all_faults()))}"
        )
