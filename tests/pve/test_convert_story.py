"""A VM of the old kind becomes q35 with OVMF on the lab: its new EFI disk reads back under the volume's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.story

OLD = "boot: order=scsi0\ncores: 8\nmemory: 65536\nname: llm\nostype: l26\nscsi0: local-lvm:vm-100-disk-1,size=512G\n"


def test_a_vm_is_converted_by_token_and_root_shell(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    config = host.root / "etc/pve/nodes/pve1/qemu-server/100.conf"
    config.write_text(OLD)

    def wish(document: dict[str, Any]) -> None:
        (one,) = document["hosts"].values()
        one["vms"] = {100: {"gpus": "all", "convert": True, "start": False}}
        document["policies"] |= {"numa": "pin"}

    inventory = host.inventory(wish)
    host.call("plan", "-i", inventory, "--detailed-exitcode").must(2)
    host.call("apply", "-i", inventory, "--yes", "--reboot", "--stop-guests").must(0)
    text = config.read_text()
    assert "bios: ovmf" in text
    assert "efidisk0: local-lvm:vm-100-disk-0," in text
    assert "affinity: " in text, "of root@pam alone: by the root shell beside the token"
    host.call("plan", "-i", inventory, "--detailed-exitcode").must(0)
    host.call("rollback", "-i", inventory, "--yes", "--stop-guests", "--reboot").must(0)
    assert "bios: ovmf" not in config.read_text()
