"""ssh_config with Include, and where known hosts come from."""

from pathlib import Path

import pytest

from provision.remote import ssh_config


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh/conf.d").mkdir(parents=True)
    return tmp_path


def test_include_goes_where_it_stands(home):
    (home / ".ssh/conf.d/pve").write_text("Host pve1\n  Port 2222\n")
    (home / ".ssh/config").write_text("Host other\n  User o\nInclude conf.d/*\n  Port 9\nHost *\n  User admin\n")
    config = ssh_config.load(None)
    assert config.lookup("pve1")["port"] == "2222"
    assert config.lookup("pve1")["user"] == "admin"
    assert config.lookup("other")["port"] == "9"


def test_include_of_itself_ends(home):
    (home / ".ssh/config").write_text("Include config\nUser x\n")
    assert ssh_config.load(None).lookup("a")["user"] == "x"


def test_an_explicit_file_must_exist(home):
    with pytest.raises(FileNotFoundError):
        ssh_config.load(str(home / "none"))


def test_known_hosts_files(home):
    files = ssh_config.known_hosts_files
    assert files({}, None)[0] == home / ".ssh/known_hosts"
    assert files({}, "~/k") == (home / "k",)
    options = {"userknownhostsfile": '~/a "b c"', "globalknownhostsfile": "none"}
    assert files(options, None) == (home / "a", Path("b c"))
