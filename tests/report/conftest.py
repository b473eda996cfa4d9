"""Host models of lab machines, read by the shipped agent in the lab's root folder, and plans on them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from provision.capture.collect import collect_host
from provision.capture.model import Capture
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.inventory.models import Host, Policies
from provision.lab.boot import boot
from provision.lab.host import LabHost
from provision.lab.install import install
from provision.lab.machine import Machine, load_machine
from provision.lab.variants import with_gpus
from provision.plan.make import make_plan
from provision.plan.model import Plan
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer
from provision.report.page import Assets
from provision.resources import resource_path

EPYC = "epyc-8x-rtxpro6000"


def read_machine(machine: Machine, root: Path) -> Capture:
    """Install and boot a machine in ``root`` and read it as a host."""
    root.mkdir(parents=True)
    install(machine, root)
    boot(machine, root, first=True)
    host = LabHost(machine, root)
    near, far = socket.socketpair()

    def run(argv: tuple[str, ...], stdin: bytes, _timeout: float, _env: object) -> tuple[int, bytes, bytes, bool]:
        answer = asyncio.run(host.dispatch(argv, stdin))
        return answer.rc, answer.out.encode(), answer.err.encode(), False

    def serve() -> None:
        with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
            bootstrap.serve(stdin, stdout, "marker", root=str(root), runner=run, environ={"USER": "root"})

    thread = threading.Thread(target=serve)
    thread.start()
    session = AgentSession.start(SocketChannel(near), Peer("lab"), "marker")
    try:
        return collect_host(session)
    finally:
        session.close()
        thread.join(10)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., HostModel]:
    """``model(name, gpus)``: a machine after its first boot, with another number of GPUs where one is given."""

    @cache
    def make(name: str = EPYC, gpus: int | None = None) -> HostModel:
        machine = load_machine(name)
        built = machine if gpus is None else with_gpus(machine, gpus)
        return assemble(read_machine(built, tmp_path_factory.mktemp("host") / "lab/root"))

    return make


@pytest.fixture(scope="session")
def capture_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Capture]:
    """``capture_of(name)``: what was read of a machine after its first boot."""

    def make(name: str) -> Capture:
        return read_machine(load_machine(name), tmp_path_factory.mktemp("host") / "lab/root")

    return make


@pytest.fixture(scope="session")
def plan() -> Callable[[HostModel], Plan]:
    """A plan that gives VM 100 all GPUs."""

    def make(host: HostModel) -> Plan:
        wish = Host.model_validate({"address": "local", "vms": {100: {"gpus": "all"}}})
        return make_plan("pve1", host, wish, Policies(), identities={}, version="0.1.0")

    return make


@pytest.fixture(scope="session")
def assets() -> Assets:
    folder = resource_path("templates") / "report"
    names = ("page.html", "page.css", "picture.css", "page.js")
    return Assets(*((folder / name).read_text(encoding="utf-8") for name in names))
