"""The list of what is read is data; other parts rely on its keys."""

import pytest

from provision.capture import secrets, wants
from provision.remote.agent import alternatives


@pytest.mark.parametrize("group", [wants.HOST_WANTS, wants.GUEST_WANTS])
def test_nothing_is_asked_twice_and_nothing_secret(group):
    asked = [(want.kind, path) for want in group if want.pattern for path in alternatives(want.pattern)]
    assert len(asked) == len(set(asked))
    assert not [path for _, path in asked if secrets.is_secret(path)]
    assert all(path.startswith("/") for _, path in asked)


def test_commands_only_read():
    lines = [" ".join(want.argv) for want in wants.HOST_WANTS if want.argv]
    assert lines == [
        "zpool status -P -L",
        "pvs -o pv_name,vg_name --reportformat json",
        "proxmox-boot-tool status",
        "efibootmgr -v",
        "bootctl --version",
        "pveversion",
        "kvm --version",
    ]


def test_configuration_space_is_asked_whole():
    (want,) = [want for want in wants.PCI_WANTS if "config," in want.pattern]
    assert want.limit >= 4096
