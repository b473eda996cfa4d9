"""A testinfra backend over pvectl's own transport: ``pvectl://NAME``.

testinfra's paramiko backend only warns about unknown host keys, so it is not used.  Commands of
testinfra's modules are shell text and go through ``sh -c`` on the far side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import testinfra.backend
from testinfra.backend.base import BaseBackend, CommandResult

from provision.errors import UsageError
from provision.remote.session import Session, Target

DEADLINE = 600.0
"""Seconds: a probe that measures takes minutes."""


class PvectlBackend(BaseBackend):
    """Runs commands through one agent session per host, opened when first needed."""

    NAME = "pvectl"
    targets: ClassVar[dict[str, Target]] = {}

    def __init__(self, hostspec: str, **kwargs: Any) -> None:
        super().__init__(hostspec, **kwargs)
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            from provision.remote.connect import connect

            target = self.targets.get(self.hostname)
            if target is None:
                raise UsageError(
                    f"Unable to reach pvectl://{self.hostname}: known are {sorted(self.targets)}",
                    "name it in the file of --pvectl-inventory or --pvectl-targets",
                )
            self._session = connect(target)
        return self._session

    def run(self, command: str, *args: str, **_kwargs: Any) -> CommandResult:
        text = self.get_command(command, *args)
        done = self.session.run(("sh", "-c", text), timeout=DEADLINE)
        return self.result(done.rc, self.encode(text), done.stdout, done.stderr)


def register(path: Path) -> None:
    """Make ``pvectl://`` known to testinfra, with the targets of a JSON file (name to target)."""
    raw = json.loads(path.read_text("utf-8"))
    register_targets({name: Target.model_validate(value) for name, value in raw.items()})


def register_targets(targets: Mapping[str, Target]) -> None:
    """Make ``pvectl://`` known to testinfra, with these targets by name."""
    testinfra.backend.BACKENDS["pvectl"] = f"{PvectlBackend.__module__}.{PvectlBackend.__name__}"
    PvectlBackend.targets = dict(targets)
