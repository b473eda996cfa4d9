"""A testinfra backend over pvectl's own transport: ``pvectl://NAME``.

testinfra's paramiko backend only warns about unknown host keys, so it is not used.  Commands of
testinfra's modules are shell text and go through ``sh -c`` on the far side.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import testinfra.backend
from testinfra.backend.base import BaseBackend, CommandResult

from provision.errors import UsageError
from provision.remote.session import Session, Target


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
                    f"Unable to reach pvectl://{self.hostname}: the targets file has {sorted(self.targets)}",
                    "give --pvectl-targets FILE with that name",
                )
            self._session = connect(target)
        return self._session

    def run(self, command: str, *args: str, **_kwargs: Any) -> CommandResult:
        text = self.get_command(command, *args)
        done = self.session.run(("sh", "-c", text))
        return self.result(done.rc, self.encode(text), done.stdout, done.stderr)


def register(path: Path) -> None:
    """Make ``pvectl://`` known to testinfra, with the targets of a JSON file (name to target)."""
    testinfra.backend.BACKENDS["pvectl"] = f"{PvectlBackend.__module__}.{PvectlBackend.__name__}"
    raw = json.loads(path.read_text("utf-8"))
    PvectlBackend.targets = {name: Target.model_validate(value) for name, value in raw.items()}
