"""From what the user typed to a guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.cli.guest_way import find_guest
from provision.errors import UsageError

INVENTORY = """\
hosts:
  pve1:
    address: root@192.0.2.10
    vms:
      100: {gpus: all, guest: {address: 192.0.2.100, user: root}}
      101: {gpus: all}
  pve2:
    address: root@192.0.2.11
    vms:
      100: {gpus: all, guest: {address: 192.0.2.200, user: admin, port: 2222}}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "pvectl.yaml"
    path.write_text(INVENTORY)
    return path


def test_host_and_number_name_a_guest(inventory: Path) -> None:
    way = find_guest("pve2/100", inventory)
    assert (way.vmid, way.name, way.target.user, way.target.port) == (100, "VM 100 on pve2", "admin", 2222)
    assert way.site is not None
    assert way.site.name == "pve2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("100", "pve1, pve2 have one of that number"),
        ("101", "the inventory does not say how"),
        ("999", "no inventory has this VM"),
        ("pve3/100", "no inventory has this VM"),
    ],
)
def test_what_names_no_guest_is_refused(inventory: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_guest(text, inventory)


def test_an_address_names_a_guest_without_its_host(inventory: Path) -> None:
    way = find_guest("root@192.0.2.20:2200", inventory)
    assert (way.vmid, way.site, way.target.address, way.target.port) == (0, None, "192.0.2.20", 2200)
