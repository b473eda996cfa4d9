"""What the repository promises about itself."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from provision import __version__
from provision.resources import resource_path

ROOT = Path(__file__).resolve().parents[2]


def test_templates_of_the_checkout_win() -> None:
    assert resource_path("templates") == ROOT / "templates"
    with pytest.raises(FileNotFoundError, match="nothing-of-this-name"):
        resource_path("nothing-of-this-name")


def test_changelog_knows_this_version_or_is_unreleased() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text


def test_lock_has_hashes_and_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in text
    assert not re.search(r"https?://|--index-url|--find-links", text)


def test_every_dependency_is_bounded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all("<" in d for d in project["dependencies"]), "a range needs an upper bound"


def test_fakepve_is_never_imported_by_the_package() -> None:
    done = subprocess.run(
        ["grep", "-rln", "fakepve", str(ROOT / "provision")], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


def test_readme_commands_exist() -> None:
    from provision.cli.verbs import VERBS

    known = {verb.name for verb in VERBS} | {"--version", "--help"}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "_build" in path.parts:
            continue
        for block in re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL):
            for verb in re.findall(r"^[$#] (?:\S*/)?pvectl (\S+)", block, re.MULTILINE):
                assert verb in known, f"{path}: pvectl {verb}"


def test_makefile_targets_exist() -> None:
    text = (ROOT / "Makefile").read_text()
    assert all(
        re.search(rf"^{target}:", text, re.MULTILINE)
        for target in ("demo", "test", "lint", "docs", "bench", "test-corpus")
    )
