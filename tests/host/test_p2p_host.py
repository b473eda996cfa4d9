"""What a host adds to P2P in a VM: parts of the fingerprint, the way of a write, what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.facts import GuestGpu
from provision.guest.record import PLACE
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.host.p2p_host import gpu_slots, gpus_of, host_part, path_states, recorded, vm_of

GUEST = [GuestGpu(bdf=f"0000:0{n}:00.0", device="0x2bb5", driver=None, bar_bytes=(), clique=None) for n in (1, 2)]
KEY = "0000:01:00.0 0000:02:00.0"
VM = "cpu: host\nhostpci0: {one},pcie=1\nhostpci1: {two},pcie=1\nmachine: q35\nargs: {args}\n"
RAW = {"one": "0000:11:00.0", "two": "0000:1d:00.0", "args": "-set device.hostpci0.x-nv-gpudirect-clique=0"}


def with_vm(builder: Any, text: str = VM.format(**RAW)) -> HostModel:
    path = "/etc/pve/nodes/pve1/qemu-server/100.conf"
    builder.absent.discard(("file", "/etc/pve/nodes/*/qemu-server/*.conf"))
    builder.files[path] = text.encode()
    builder.files["/proc/cmdline"] = b"quiet iommu=pt amd_iommu_dump\n"
    builder.commands["kvm --version"] = "QEMU emulator version 10.0.2 (pve-qemu-kvm_10.0.2-4)\nCopyright\n"
    return assemble(builder.capture())


@pytest.fixture
def model(server: Callable[..., Any]) -> HostModel:
    return with_vm(server())


@pytest.fixture
def below_a_switch(builder: Any, fn: Any, root: Any) -> Callable[[int | None], HostModel]:
    """Two GPUs below one switch whose downstream ports have this ACS control, or no ACS."""

    def make(control: int | None) -> HostModel:
        acs = None if control is None else 0x5F
        ports = [
            fn(f"{n:02x}.0", "1000:c030", 0x060400, "downstream-port", acs=acs, control=control, below=[
                fn("00.0", "10de:2bb5", 0x030200, "endpoint", dsn=n + 1)
            ]) for n in (0, 1)
        ]  # fmt: skip
        switch = fn("00.0", "1000:c030", 0x060400, "upstream-port", below=ports)
        port = fn("01.1", "1022:153e", 0x060400, "root-port", acs=0x5F, below=[switch])
        builder.add_root(root(0x10, "\\_SB_.S0D1", 0, [port]))
        gpus = [gpu.bdf for gpu in assemble(builder.capture()).gpus()]
        return with_vm(builder, VM.format(one=gpus[0], two=gpus[1], args=""))

    return make


# --- the fingerprint


def test_the_parts_of_the_host(model: HostModel) -> None:
    part = host_part(model, 100)
    assert not isinstance(part, Unknown)
    assert (part.kernel, part.qemu) == ("6.14.8-2-pve", "10.0.2 (pve-qemu-kvm_10.0.2-4)")
    assert (part.cpu, part.machine, part.cliques) == ("host", "q35", ("hostpci0=0",))
    assert part.options == ("iommu=pt",)
    assert part.gpus == ("10de:2bb5 \\_SB_.S0D1/01.1/00.0", "10de:2bb5 \\_SB_.S0D2/01.1/00.0")


def test_a_vm_that_was_not_read_has_no_parts(model: HostModel) -> None:
    assert isinstance(host_part(model, 101), Unknown)
    assert vm_of(model, 101) is None


def test_qemu_that_was_not_read_is_unknown(server: Callable[..., Any]) -> None:
    part = host_part(assemble(server().capture()), 100)
    assert isinstance(part, Unknown)
    assert isinstance(assemble(server().capture()).proxmox.qemu, Unknown)


def test_the_gpus_of_a_vm(model: HostModel) -> None:
    vm = vm_of(model, 100)
    assert vm is not None
    assert [gpu.bdf for gpu in gpus_of(vm, model)] == ["0000:11:00.0", "0000:1d:00.0"]  # type: ignore[union-attr]
    assert gpu_slots(model, 100) == 2


@pytest.mark.parametrize(
    ("one", "two", "slots"),
    [("0000:11:00", "0000:1d:00.0", 2), ("0000:11:00.0", "0000:04:00.0", 1), ("mapping=gone", "0000:1d:00.0", 1)],
)
def test_slots_that_are_no_gpu_do_not_count(server: Callable[..., Any], one: str, two: str, slots: int) -> None:
    assert gpu_slots(with_vm(server(), VM.format(one=one, two=two, args="")), 100) == slots


# --- the way of a write


def test_between_root_ports_nothing_can_go_astray(model: HostModel) -> None:
    assert path_states(model, 100, GUEST) == {KEY: "ok", "0000:02:00.0 0000:01:00.0": "ok"}


@pytest.mark.parametrize(
    ("control", "state"), [(0x1D, "ok"), (0x04, "ok"), (0x11, "clear"), (0, "clear"), (None, "clear")]
)
def test_below_a_switch_request_redirect_decides(
    below_a_switch: Callable[[int | None], HostModel], control: int | None, state: str
) -> None:
    assert path_states(below_a_switch(control), 100, GUEST)[KEY] == state


def test_one_clear_port_of_two_leaves_the_pair_unknown(below_a_switch: Callable[[int | None], HostModel]) -> None:
    model = below_a_switch(0x1D)
    ports = [fn for fn in model.pci if not isinstance(fn.config, Unknown) and fn.config.port_type == "downstream-port"]
    config = ports[0].config
    assert not isinstance(config, Unknown)
    acs = config.acs.model_copy(update={"control": 0})  # type: ignore[union-attr]
    cleared = ports[0].model_copy(update={"config": config.model_copy(update={"acs": acs})})
    pci = tuple(cleared if fn.bdf == cleared.bdf else fn for fn in model.pci)
    assert path_states(model.model_copy(update={"pci": pci}), 100, GUEST)[KEY] == "unknown"


def test_a_port_that_was_not_read_is_not_ok(below_a_switch: Callable[[int | None], HostModel]) -> None:
    model = below_a_switch(0x1D)
    denied = Unknown(unknown="denied")
    pci = tuple(fn if fn.is_nvidia_gpu else fn.model_copy(update={"config": denied}) for fn in model.pci)
    assert path_states(model.model_copy(update={"pci": pci}), 100, GUEST)[KEY] == "unknown"


def test_without_the_vm_no_way_is_known(model: HostModel) -> None:
    assert set(path_states(model, 101, GUEST).values()) == {"unknown"}


def test_a_guest_gpu_that_the_vm_cannot_have_is_unknown(model: HostModel) -> None:
    other = [gpu.model_copy(update={"device": "0x2335"}) for gpu in GUEST]
    assert set(path_states(model, 100, other).values()) == {"unknown"}


# --- what was recorded


def test_no_file_is_no_record_and_a_damaged_one_is_unknown(server: Callable[..., Any]) -> None:
    builder = server()
    builder.absent.add(("file", PLACE))
    assert recorded(with_vm(builder), 100) == ()
    builder.absent.discard(("file", PLACE))
    builder.files[PLACE] = b"{"
    damaged = recorded(with_vm(builder), 100)
    assert isinstance(damaged, Unknown)
    assert PLACE in damaged.supply
