"""Secrets come from the environment or a private file, and never show in a message."""

from __future__ import annotations

import pytest

from provision.errors import InventoryError
from provision.inventory.models import SecretRef
from provision.inventory.secrets import read_secret


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("PVE_TOKEN", "hunter2")
    assert read_secret(SecretRef(env="PVE_TOKEN")) == "hunter2"
    monkeypatch.delenv("PVE_TOKEN")
    with pytest.raises(InventoryError, match="PVE_TOKEN is not set"):
        read_secret(SecretRef(env="PVE_TOKEN"))


def test_from_a_private_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("hunter2\n")
    path.chmod(0o600)
    assert read_secret(SecretRef(file=str(path))) == "hunter2"


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o601])
def test_a_file_that_others_can_reach_is_refused(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text("hunter2\n")
    path.chmod(mode)
    with pytest.raises(InventoryError, match="every user of this machine") as caught:
        read_secret(SecretRef(file=str(path)))
    assert caught.value.hint == f"chmod 600 {path}"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "words"), [(b"", "empty"), (b" \n", "empty"), (b"a\nb\n", "one line"), (b"\xff", "not text")]
)
def test_files_without_one_secret(tmp_path, raw, words):
    path = tmp_path / "token"
    path.write_bytes(raw)
    path.chmod(0o600)
    with pytest.raises(InventoryError, match=words):
        read_secret(SecretRef(file=str(path)))


def test_a_missing_file(tmp_path):
    with pytest.raises(InventoryError, match="Unable to read the secret file"):
        read_secret(SecretRef(file=str(tmp_path / "none")))
