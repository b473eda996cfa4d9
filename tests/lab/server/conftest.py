"""Running labs.  One lab is shared by the tests that only look; those that change something start their own."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from provision.lab.supervisor import RunningLab, running
from provision.remote.connect import connect
from provision.remote.session import Session, Target

MACHINE = "epyc-8x-rtxpro6000"


def target_of(lab: RunningLab, port: int | None = None, name: str = "pve1") -> Target:
    site = lab.lab.site
    return Target(
        name=name,
        kind="ssh",
        address="127.0.0.1",
        port=port or lab.lab.ssh.port,
        identity_file=str(site.client_key),
        known_hosts=str(site.known_hosts),
    )


class Http:
    """A plain client of the lab's API, independent of pvectl's own."""

    def __init__(self, lab: RunningLab) -> None:
        self.lab = lab
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = str(lab.lab.site.api / "certificate.pem")
        self.token = lab.lab.site.token.read_text("ascii").strip()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.lab.lab.api.port}/api2/json"

    def call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **rest: Any) -> requests.Response:
        sent = {"Authorization": f"PVEAPIToken=root@pam!pvectl={self.token}"} if headers is None else headers
        return self.session.request(method, self.url + path, headers=sent, timeout=20, **rest)

    def data(self, method: str, path: str, **rest: Any) -> Any:
        answer = self.call(method, path, **rest)
        assert answer.status_code == 200, f"{answer.status_code} {answer.reason} {answer.text}"
        return answer.json()["data"]


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[RunningLab]:
    with running(MACHINE) as lab:
        yield lab


@pytest.fixture
def lab() -> Iterator[RunningLab]:
    with running(MACHINE, boot_delay=0.2) as started:
        yield started


@pytest.fixture
def http() -> Callable[[RunningLab], Http]:
    return Http


@pytest.fixture
def reach() -> Iterator[Callable[..., Session]]:
    """Connect over SSH to the host, or to a guest by its VM id; closed afterwards."""
    opened: list[Session] = []

    def to(lab: RunningLab, vmid: int | None = None) -> Session:
        port = None if vmid is None else lab.lab.guests.ports[vmid]
        session = connect(target_of(lab, port, "pve1" if vmid is None else f"guest {vmid}"))
        opened.append(session)
        return session

    yield to
    for session in opened:
        session.close()


@pytest.fixture
def repair_mapping(http: Callable[[RunningLab], Http]) -> Callable[[RunningLab], None]:
    """Give the mapping rtx6000 the groups that the hardware has."""

    def repair(lab: RunningLab) -> None:
        client = http(lab)
        rows = client.data("GET", "/nodes/pve1/hardware/pci", params={"pci-class-blacklist": ""})
        groups = {row["id"]: row["iommugroup"] for row in rows}
        [mapping] = client.data("GET", "/cluster/mapping/pci")
        entries = []
        for entry in mapping["map"]:
            fields = dict(part.split("=", 1) for part in entry.split(","))
            fields["iommugroup"] = str(groups[fields["path"]])
            entries.append(",".join(f"{key}={value}" for key, value in fields.items()))
        client.data("PUT", "/cluster/mapping/pci/rtx6000", data={"map": entries, "digest": mapping["digest"]})

    return repair


def quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def as_json(data: bytes) -> Any:
    return json.loads(data)
