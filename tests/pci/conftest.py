"""PCI functions built from a few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.model import AcsState, ConfigSpace, PciFunction

FULL = 0x5F
"""SV, TB, RR, CR, UF and DT: what AMD root ports offer."""


def make(
    bdf: str,
    port: str | Unknown | None = "endpoint",
    parent: str | None = None,
    *,
    acs: int | Unknown | None = None,
    control: int | None = None,
    multifunction: bool = False,
    ids: str = "1022:0001",
    root: str | None = None,
    **fields: Any,
) -> PciFunction:
    vendor, device = (int(part, 16) for part in ids.split(":"))
    is_bridge = isinstance(port, str) and (port.endswith(("port", "bridge")))
    state: Any = acs
    if isinstance(acs, int):
        state = AcsState(offset=0x2A0, capability=acs, control=acs & 0x1D if control is None else control)
    config = ConfigSpace(
        length=4096,
        header_type=int(is_bridge),
        is_multifunction=multifunction,
        port_type=port,  # type: ignore[arg-type]
        acs=state,
        dsn=fields.pop("dsn", None),
        has_flr=False,
        sriov_total_vfs=None,
        rebar=False,
        clique=None,
    )
    return PciFunction(
        bdf=bdf,
        vendor=vendor,
        device=device,
        class_code=fields.pop("class_code", 0x060400 if is_bridge else 0x030000),
        parent=parent,
        root=root if root is not None else "pci0000:" + (bdf[5:7] if parent is None else "00"),
        config=fields.pop("config", config),
        **fields,
    )


@pytest.fixture
def fn() -> Callable[..., PciFunction]:
    return make
