"""From a session to a capture."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys

import pytest

from provision.capture.collect import collect_guest, collect_host, merge
from provision.capture.model import Item
from provision.capture.wants import HOST_WANTS
from provision.evidence import Unknown
from provision.remote import bootstrap
from provision.remote.client import AgentSession, Peer
from provision.remote.local import ChildChannel, open_local
from provision.remote.session import Read


def read(key: str, data: bytes | None, kind: str = "file", state: str = "read", **more: object) -> Read:
    digest = None if data is None else hashlib.sha256(data).hexdigest()
    return Read(item=Item(subject="host", key=key, kind=kind, state=state, sha256=digest, **more), data=data or b"")


class Fake:
    """As much of a session as a collection needs."""

    target = "root@pve1"
    host_key = "SHA256:x"

    def __init__(self, *reads: Read, euid: int = 0) -> None:
        self.reads = list(reads)
        self.euid = euid

    def read(self, wants, *, deadline=60.0):
        self.wants = wants
        return self.reads


def collect(*reads: Read, euid: int = 0):
    return collect_host(Fake(*reads, euid=euid))


def test_manifest_and_content():
    capture = collect(read("/proc/sys/kernel/hostname", b"pve1\n"), read("/etc/none", None, state="absent"))
    manifest = capture.manifest
    assert (manifest.target, manifest.hostname, manifest.host_key, manifest.euid) == (
        "root@pve1",
        "pve1",
        "SHA256:x",
        0,
    )
    assert manifest.agent_sha256 == bootstrap.AGENT_SHA256
    assert capture.text("/proc/sys/kernel/hostname") == "pve1\n"
    assert capture.data("/etc/none") is None
    assert isinstance(capture.data("/etc/other"), Unknown)
    assert manifest.notes == ()


def test_passwords_of_vms_are_masked_and_noted():
    key = "/etc/pve/nodes/pve1/qemu-server/100.conf"
    capture = collect(read(key, b"cipassword: hunter2\n"))
    assert capture.text(key) == "cipassword: pvectl-masked\n"
    assert capture.item(key).reason == "masked: cipassword"
    assert not [blob for blob in capture.blobs.values() if b"hunter2" in blob]
    assert capture.manifest.notes == (f"secret values were replaced in {key}",)


def test_secret_files_are_dropped_whatever_the_host_sends():
    capture = collect(read("/etc/modprobe.d/x.key", b"secret"))
    item = capture.item("/etc/modprobe.d/x.key")
    assert (item.state, item.sha256) == ("not_asked", None)
    assert not capture.blobs


def test_notes_on_what_is_missing():
    late = read("zpool status", None, kind="command", state="not_asked", reason="the time was up")
    capture = collect(read("/etc/x", None, state="denied"), late, euid=1000)
    assert capture.manifest.notes == (
        "read without root: 1 facts were denied",
        "the time was up: 1 facts were not asked for",
    )


def test_the_same_key_twice_is_kept_once():
    capture = collect(read("/etc/a", b"1"), read("/etc/a", b"1"))
    assert len(capture.items) == 1


def test_guests_have_a_subject_and_join_a_capture():
    host = collect(read("/etc/a", b"1"))
    guest = collect_guest(Fake(read("/etc/a", b"2")), 100)
    both = merge(host, guest)
    assert both.text("/etc/a") == "1"
    assert both.text("/etc/a", subject="guest/100") == "2"
    assert both.manifest == host.manifest


def check_this_machine(session: AgentSession):
    capture = collect_host(session)
    assert capture.text("/proc/cmdline")
    assert capture.manifest.hostname == str(capture.text("/proc/sys/kernel/hostname")).strip()
    asked = {(want.kind, " ".join(want.argv)) for want in HOST_WANTS if want.argv}
    assert asked <= {(item.kind, item.key) for item in capture.items}
    assert not [item for item in capture.items if item.reason == "the time was up"]
    assert all((item.sha256 in capture.blobs) == (item.sha256 is not None) for item in capture.items)
    return capture


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux")
def test_this_very_machine():
    with open_local() as session:
        capture = check_this_machine(session)
    assert capture.manifest.euid == os.geteuid()
    devices = list(capture.keys("/sys/bus/pci/devices/", "link"))
    configs = [key for key in capture.keys("/sys/bus/pci/devices/") if key.endswith("/config")]
    assert len(configs) == len([key for key in devices if key.count("/") == 5])


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to give it up")
def test_this_very_machine_without_root():
    marker = bootstrap.new_marker()
    argv = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3")
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("no python3 that everybody may run")
    with AgentSession.start(ChildChannel((*argv, *bootstrap.command(marker)[1:])), Peer("local"), marker) as session:
        assert session.euid == 65534
        capture = check_this_machine(session)
    assert capture.manifest.notes[0].startswith("read without root: ")
    for key in capture.keys("/sys/bus/pci/devices/"):
        if key.endswith("/config"):
            assert len(capture.data(key)) == 64
