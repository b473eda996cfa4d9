"""Proxmox' objects by ``pvesh`` and ``qm`` in the node's own shell, as root@pam.

Success is exit status zero and nothing else: other statuses are leftovers of errno.  The value is the last
line that is JSON, since logs and notes come before it.  What goes to standard error with status zero is a
warning.  A task runs in the foreground, and ``pvesh`` ends with zero even when the task failed: its exit
status is asked for afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal

from provision.errors import ConnectionCut, PveError, TimeLimit
from provision.pve.answers import Answer, OutcomeUnknown, refusal
from provision.pve.caller import Params, Verb, plain
from provision.pve.names import vm_id
from provision.pve.objects import PveObjects
from provision.pve.tasks import Clock
from provision.pve.vm_power import silent
from provision.remote.session import RunResult, Session

CALL_TIMEOUT_S = 90.0
"""pvesh loads for a second or two; the cluster's lock may take ten, and a write sixty."""
_TASK_MARGIN_S = 60.0
_STATUS_LINE = "400 "


class PveshCaller:
    """A :class:`provision.pve.caller.Caller` by ``pvesh``."""

    def __init__(self, session: Session, tell: Callable[[str], None] = silent) -> None:
        self._session = session
        self._tell = tell
        self.warnings: list[str] = []
        """What calls that succeeded wrote to standard error."""

    @property
    def way(self) -> Literal["api", "shell"]:
        return "shell"

    @property
    def is_root(self) -> bool:
        return self._session.euid == 0

    @property
    def where(self) -> str:
        return self._session.target

    def call(self, verb: Verb, path: str, params: Params, *, action: str, timeout: float | None = None) -> Any:
        argv = ["pvesh", verb, path]
        for key, value in plain(params, action=action, where=self.where).items():
            for text in value if isinstance(value, list) else [value]:
                argv += [f"--{key}", text]
        limit = CALL_TIMEOUT_S if timeout is None else timeout + _TASK_MARGIN_S
        result = self.run([*argv, "--output-format", "json"], action, limit, is_write=verb != "get")
        return _value(result.stdout)

    def run(self, argv: list[str], action: str, timeout: float, *, is_write: bool) -> RunResult:
        """Run ``argv`` and return it where it ended with zero.  Raises as :meth:`call` does."""
        try:
            result = self._session.run(argv, timeout=timeout)
        except (ConnectionCut, TimeLimit) as error:
            if is_write:
                raise OutcomeUnknown(f"Unable to {action} on {self.where}: {error.message}", error.hint) from error
            raise
        if result.timed_out:
            text = f"Unable to {action} on {self.where}: {argv[0]} did not end within {timeout:.0f} s"
            raise OutcomeUnknown(text) if is_write else TimeLimit(text, "", self.where)
        if result.rc != 0:
            raise self._refused(result, action)
        self._warn(line for line in _text(result.stderr).splitlines() if line.strip())
        return result

    def _warn(self, lines: Iterable[str]) -> None:
        """Keep what Proxmox warned of, and say it where it was not said yet."""
        for line in lines:
            if line not in self.warnings:
                self._tell(f"{self.where} warns: {line}")
            self.warnings.append(line)

    def _refused(self, result: RunResult, action: str) -> PveError:
        if result.rc == 127:
            return PveError(
                f"Unable to {action} on {self.where}: there is no {result.argv[0]} there",
                "this host is no Proxmox VE node, or its PATH lacks /usr/bin",
            )
        lines = (_text(result.stderr).strip() or _text(result.stdout).strip()).splitlines()
        tool = result.argv[0]
        kept = [line for line in lines if not line.startswith((f"{tool} ", "USAGE:"))]
        status = 400 if any(line.startswith(_STATUS_LINE) for line in kept) else 0
        message = "\n".join(line.removeprefix(_STATUS_LINE) for line in kept)
        return refusal(action, self.where, Answer(status, message or f"exit status {result.rc}", {}))


class ShellPve(PveObjects):
    """A :class:`provision.pve.session.PveSession` over the agent of one node."""

    def __init__(
        self,
        session: Session,
        node: str | None = None,
        *,
        clock: Clock | None = None,
        tell: Callable[[str], None] = silent,
    ) -> None:
        self._shell = PveshCaller(session, tell)
        super().__init__(self._shell, node or own_node(self._shell), clock=clock, tell=tell)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What Proxmox warned of so far: damaged lines that its next write loses, and the like."""
        return tuple(self._shell.warnings)

    def vm_showcmd(self, vmid: int) -> str | None:
        """Return the command line that Proxmox would start; it checks every mapping on the way."""
        action = f"show the command line of VM {vmid}"
        result = self._shell.run(["qm", "showcmd", str(vm_id(vmid))], action, CALL_TIMEOUT_S, is_write=False)
        return _text(result.stdout).strip()


def own_node(caller: PveshCaller) -> str:
    """Return the name of the node whose shell this is."""
    rows = caller.call("get", "/cluster/status", {}, action="find the node's name")
    names = [str(row["name"]) for row in rows if row.get("type") == "node" and int(row.get("local", 0)) == 1]
    if len(names) != 1:
        raise PveError(f"Unable to find the node's name on {caller.where}: Proxmox names {len(names)} local nodes")
    return names[0]


def _value(stdout: bytes) -> Any:
    """Return the last line that is JSON, else ``None``: writes print notes or nothing."""
    for line in reversed(_text(stdout).splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
