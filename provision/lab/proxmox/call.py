"""What one API call is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.node import Node

Params = Mapping[str, str]
Check = Callable[[Any], "dict[str, str] | str | None"]
Act = Callable[[Node, Caller, Params, dict[str, Any]], Any]


@dataclass(frozen=True)
class Call:
    """Method and path with ``{name}`` parts, its parameters, the privilege it needs and what it does.

    ``more`` names the check of parameters that are not listed (the options of a VM).
    """

    method: str
    path: str
    act: Act
    params: Mapping[str, Check] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    require: Callable[[Node, Caller, Params, dict[str, Any]], None] | None = None
    more: Callable[[str], Check | None] | None = None
    makes_task: bool = False

    @property
    def regex(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))

    def check_of(self, name: str) -> Check | None:
        """Return the check of a parameter, ``None`` where the call has no such parameter."""
        if name in self.params:
            return self.params[name]
        return self.more(name) if self.more is not None else None
