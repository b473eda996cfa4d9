"""The tree as text: golden files for whole hosts, single lines for single facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.capture.model import Capture
from provision.host.assemble import assemble
from provision.host.text_layout import Notes, count, size, wrap
from provision.host.topo_text import render
from provision.pci.grouping import compare_present

GOLDEN = Path(__file__).parent.parent / "data" / "topo"
Make = Callable[..., Any]


def check(name: str, text: str) -> None:
    """Compare with a golden file; PVECTL_WRITE_GOLDEN=1 writes it."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("PVECTL_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def two_vms(builder: Any) -> Any:
    folder = "/etc/pve/nodes/pve1/qemu-server"
    builder.files[f"{folder}/100.conf"] = b"name: llm\nhostpci0: mapping=pool,pcie=1\nhostpci1: mapping=pool,pcie=1\n"
    builder.files[f"{folder}/101.conf"] = b"name: desk\nhostpci0: 29:00,pcie=1\n"
    builder.files["/etc/pve/mapping/pci.cfg"] = (
        b"pool\n\tmap id=10de:2bb5,iommugroup=11,node=pve1,path=0000:11:00.0\n"
        b"\tmap id=10de:2bb5,iommugroup=14,node=pve1,path=0000:1d:00.0\n\n"
        b"spare\n\tmap id=10de:2bb5,iommugroup=20,node=pve1,path=0000:35:00\n"
    )
    return builder


def test_a_server_with_eight_gpus(server: Make) -> None:
    text = render(assemble(two_vms(server(8)).capture()), next_command="pvectl doctor root@pve1")
    check("server-8-gpus", text)


def test_every_function(server: Make) -> None:
    check("server-1-gpu-all", render(assemble(server(1).capture()), show_all=True))


def test_not_root(server: Make) -> None:
    builder = server(2)
    for key in list(builder.files):
        if key.endswith("/config"):
            builder.files[key] = builder.files[key][:64]
    builder.files["/etc/pve/mapping/pci.cfg"] = b""
    for path in ("/etc/pve/mapping/pci.cfg", "/etc/pve/nodes/*/qemu-server/*.conf"):
        builder.absent.discard(("file", path))
        builder.denied.add(("file", path))
    del builder.commands["pvs -o pv_name,vg_name --reportformat json"]
    text = render(assemble(builder.capture(euid=1000)))
    assert "ACS: unreadable (needs root) [" in text
    assert "no ACS" not in text
    check("server-2-gpus-not-root", text)


def test_a_switch_and_a_shared_group(builder: Any, root: Make, fn: Make) -> None:
    gpu = {"ids": "10de:2bb1", "class_code": 0x030000, "port": "endpoint", "link": (4, 8, 4, 16)}
    audio = {"ids": "10de:22e8", "class_code": 0x040300, "port": "endpoint", "driver": "snd_hda_intel"}
    down = [
        fn("00.0", "10b5:8747", 0x060400, "downstream-port", acs=0x1D, control=0x11, group=2, link=(4, 8, 4, 8), below=[
            fn("00.0", group=4, files={"boot_vga": "1"}, **gpu), fn("00.1", group=4, **audio),
        ]),
        fn("08.0", "10b5:8747", 0x060400, "downstream-port", group=3, link=(4, 8, 4, 8), below=[
            fn("00.0", group=3, **gpu), fn("00.1", group=3, **audio),
        ]),
        fn("09.0", "10b5:8747", 0x060400, "downstream-port", acs=0x05, group=5, below=[
            fn("00.0", "15b3:101d", 0x020000, "endpoint", group=3, driver="mlx5_core"),
        ]),
    ]  # fmt: skip
    up = fn("00.0", "10b5:8747", 0x060400, "upstream-port", group=1, below=down)
    builder.add_root(
        root(0x00, None, -1, [fn("01.0", "8086:1901", 0x060400, "root-port", acs=0x1D, group=0, below=[up])])
    )
    check("switch", render(assemble(builder.capture())))


@pytest.mark.parametrize("gpus", [1, 8, 16])
@pytest.mark.parametrize("show_all", [False, True])
def test_no_line_is_longer_than_a_hundred_columns(server: Make, gpus: int, show_all: bool) -> None:
    text = render(assemble(two_vms(server(gpus)).capture()), show_all=show_all)
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.count("GPU RTX PRO 6000") == gpus


def test_an_empty_capture_is_all_questions_with_their_answers() -> None:
    from provision.capture.model import Manifest

    empty = Capture(manifest=Manifest(target="x", created="2026-01-01T00:00:00Z"), items=(), blobs={})
    text = render(assemble(empty))
    assert text.startswith("? [")
    assert "to supply it: take a new capture as root" in text


def test_this_very_machine(this_machine: Capture) -> None:
    model = assemble(this_machine)
    assert compare_present(model).result in ("equal", "quirk", "unknown", "not-reproduced")
    text = render(model, show_all=True)
    assert all(fn.bdf in text for fn in model.pci)
    assert max(len(line) for line in text.splitlines()) <= 100


class TestLayout:
    def test_notes_with_the_same_reason_share_a_number(self) -> None:
        from provision.evidence import Unknown

        notes = Notes()
        assert notes.mark(Unknown(unknown="0000:01:00.0 sleeps")) == "? [1]"
        assert notes.mark(Unknown(unknown="0000:02:00.0 sleeps")) == "? [1]"
        assert notes.mark(Unknown(unknown="cut", supply="read again")) == "? [2]"
        assert notes.lines() == ["[1] * sleeps", "[2] cut; to supply it: read again"]

    def test_wrap(self) -> None:
        parts = ["word " * 12 + "end", "second " * 6 + "end", "x" * 30]
        lines = wrap("head: ", parts, "    ")
        assert all(len(line) <= 100 for line in lines)
        assert " ".join(line.strip() for line in lines) == "head: " + ", ".join(parts)

    def test_sizes_and_counts(self) -> None:
        assert [size(n) for n in (512, 4096, 32 << 20, 128 << 30, 1 << 40)] == [
            "512 B", "4 KiB", "32 MiB", "128 GiB", "1 TiB",
        ]  # fmt: skip
        assert [size(n) for n in (97887 << 20, 3 << 29, 1023)] == ["95.59 GiB", "1.5 GiB", "1023 B"]
        assert size(10**400).endswith(" TiB")
        assert [count(n, "GPU") for n in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
