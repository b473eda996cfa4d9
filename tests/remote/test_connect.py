"""What a user types for a host."""

import pytest

from provision.errors import UsageError
from provision.remote import connect
from provision.remote.connect import parse_target


@pytest.mark.parametrize(
    ("text", "user", "address", "port"),
    [
        ("pve1", "", "pve1", None),
        ("root@pve1", "root", "pve1", None),
        ("root@pve1:2222", "root", "pve1", 2222),
        ("pve1.example.com:22", "", "pve1.example.com", 22),
        (" admin@10.0.0.1:65535 ", "admin", "10.0.0.1", 65535),
        ("root@[2001:db8::1]:22", "root", "2001:db8::1", 22),
        ("[fe80::1%eth0]", "", "fe80::1%eth0", None),
        ("my_host", "", "my_host", None),
    ],
)
def test_ssh_targets(text, user, address, port):
    target = parse_target(text)
    assert (target.kind, target.user, target.address, target.port) == ("ssh", user, address, port)
    assert target.name == text.strip()


def test_local_and_options():
    assert parse_target("local").kind == "local"
    target = parse_target("pve1", identity_file="/k", known_hosts="/h", connect_timeout=3)
    assert (target.identity_file, target.known_hosts, target.connect_timeout) == ("/k", "/h", 3.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@pve1",
        "root@",
        "pve1:",
        "pve1:x",
        "pve1:0",
        "pve1:65536",
        "2001:db8::1",
        "a b",
        "-oProxyCommand=id",
        "a@b@c",
        "[::1",
    ],
)
def test_bad_targets(text):
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.hint


def test_local_goes_through_the_door_where_there_is_one(monkeypatch):
    opened = []
    monkeypatch.setattr("provision.remote.local.open_door", lambda path, name: opened.append(path))
    monkeypatch.setattr("provision.remote.local.open_local", lambda name: opened.append("here"))
    connect.connect(parse_target("local"), lab_door="/a")
    monkeypatch.setenv("PVECTL_LAB_DOOR", "/b")
    connect.connect(parse_target("local"))
    monkeypatch.delenv("PVECTL_LAB_DOOR")
    connect.connect(parse_target("local"))
    assert opened == ["/a", "/b", "here"]
