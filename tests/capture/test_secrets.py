"""What a capture never holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.capture import secrets


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/pve/priv/token.cfg",
        "/etc/pve/priv/acme/x",
        "/etc/pve/nodes/pve1/pve-ssl.key",
        "/etc/pve/pve-root-ca.pem",
        "/etc/ssh/ssh_host_ed25519_key",
        "/root/.ssh/id_rsa",
        "/home/x/.ssh/authorized_keys",
        "/etc/modprobe.d/signing.key",
        "/etc/corosync/authkey",
    ],
)
def test_secret_paths(path):
    assert secrets.is_secret(path)


@pytest.mark.parametrize("path", ["/etc/pve/mapping/pci.cfg", "/etc/default/grub", "/etc/pve/corosync.conf"])
def test_other_paths(path):
    assert not secrets.is_secret(path)


VM = "/etc/pve/nodes/pve1/qemu-server/100.conf"


@pytest.mark.parametrize(
    ("path", "text", "masked", "names"),
    [
        (VM, "a: 1\ncipassword: $5$x$y\nciuser: u\n", "a: 1\ncipassword: pvectl-masked\nciuser: u\n", ("cipassword",)),
        (VM, "a: 1\r\ncipassword: x\r\n", "a: 1\r\ncipassword: pvectl-masked\r\n", ("cipassword",)),
        (
            VM,
            "cipassword: x\n[snap]\ncipassword: y",
            "cipassword: pvectl-masked\n[snap]\ncipassword: pvectl-masked",
            ("cipassword",),
        ),
        (VM, "#cipassword is not set\nname: cipassword\n", "#cipassword is not set\nname: cipassword\n", ()),
        ("/etc/network/interfaces", "  wpa-psk a b\n", "  wpa-psk pvectl-masked\n", ("wpa-psk",)),
        (
            "/boot/grub/grub.cfg",
            "password_pbkdf2 root grub.x\n",
            "password_pbkdf2 root pvectl-masked\n",
            ("password_pbkdf2",),
        ),
        ("/etc/default/grub", "cipassword: x\n", "cipassword: x\n", ()),
    ],
)
def test_mask(path, text, masked, names):
    assert secrets.mask(path, text.encode()) == (masked.encode(), names)


@given(st.binary(max_size=200))
def test_mask_changes_nothing_else_and_is_stable(data):
    once = secrets.mask(VM, data)
    assert secrets.mask(VM, once.data).data == once.data
    if b"cipassword" not in data:
        assert once == (data, ())
