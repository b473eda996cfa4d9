"""``pvectl capture`` on this very machine."""

import json
from pathlib import Path

import pytest

from provision.capture import store
from provision.capture.model import Capture, Item, Manifest
from provision.cli.capture import command, summary, summary_text
from provision.cli.output import OutputFormat
from provision.errors import UsageError


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No inventory and no lab of the person who runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PVECTL_LAB_DOOR", raising=False)
    monkeypatch.delenv("PVECTL_INVENTORY", raising=False)


def test_text(tmp_path, capsys):
    path = tmp_path / "here.tar.gz"
    assert command("local", file=path) == 0
    shown = capsys.readouterr()
    assert shown.err == "reading local ...\n"
    assert shown.out.startswith("local: ")
    assert shown.out.endswith(f"Next: pvectl doctor --from {path}\n")
    assert store.load(path).manifest.target == "local"


def test_json_and_the_name_it_chooses(capsys):
    assert command("local", output=OutputFormat.json) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pvectl.summary/1"
    path = Path(document["data"]["file"])
    assert path.name.endswith(".tar.gz")
    assert document["data"]["states"]["read"] == sum(item.state == "read" for item in store.load(path).items)


def test_a_file_that_exists_is_kept_unless_forced(tmp_path):
    path = tmp_path / "here.tar.gz"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        command("local", file=path)
    assert path.read_text() == "precious"
    assert command("local", file=path, force=True) == 0
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        command("local", file=tmp_path / "folder", force=True)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        command("local", file=tmp_path / "none/here.tar.gz")


def item(key, state, reason=""):
    return Item(subject="host", key=key, kind="file", state=state, reason=reason)


def test_what_was_not_read_is_named():
    items = [item(f"/sys/{number}", "denied") for number in range(10)]
    items += [item("/sys/bad", "error", "Input/output error"), item("/none", "absent")]
    capture = Capture(Manifest(target="u@pve1", created="", notes=("read without root",)), tuple(items), {})
    text = summary_text(capture, Path("my file.tar.gz"))
    assert text == (
        "u@pve1: 0 facts, 0 KiB, saved in my file.tar.gz\n"
        "  absent       1   (looked for and not there)\n"
        "  denied       10   (permission denied; capture as root for the whole picture)\n"
        + "".join(f"    /sys/{number}\n" for number in range(8))
        + "    ... and 2 more\n"
        "  error        1   (could not be read)\n"
        "    /sys/bad: Input/output error\n"
        "  note: read without root\n"
        "\n"
        "Next: pvectl doctor --from 'my file.tar.gz'"
    )
    data = summary(capture, Path("x"))
    assert data["failed"] == {"/sys/bad": "Input/output error"}
    assert len(data["denied"]) == 10
