"""The program that travels: one text, the same each time, from modules that need nothing but the standard library."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provision.guest import onboard
from provision.guest.bundle import probe_source
from provision.guest.importer import PACKAGE

FOLDER = Path(onboard.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
OLDEST = (3, 8)


def test_the_text_is_the_same_each_time() -> None:
    probe_source.cache_clear()
    first = probe_source()
    probe_source.cache_clear()
    assert probe_source() == first
    assert all(repr(path.read_text()) in first for path in MODULES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_only_the_standard_library_and_its_siblings(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(), feature_version=OLDEST)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] in sys.stdlib_module_names or name.startswith(PACKAGE), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_has_nothing_that_python_3_8_reads_at_run_time_and_lacks(path: Path) -> None:
    """Aliases such as ``Callable[[], int]`` or ``list[int]`` outside annotations fail there."""
    tree = ast.parse(path.read_text(), feature_version=OLDEST)
    new = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "collections.abc"
        for alias in node.names
    } | {"list", "dict", "tuple", "set", "type", "frozenset"}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        inside = [] if value is None else [part for part in ast.walk(value) if isinstance(part, ast.Subscript)]
        for part in inside:
            assert not (isinstance(part.value, ast.Name) and part.value.id in new), ast.unparse(node)


@pytest.mark.parametrize("words", [["--pairs", "0"], ["--pairs", "1-1"], ["--host-paths", "{"], ["--p2p", "slow"]])
def test_a_wrong_argument_ends_with_2_and_says_why(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-", *words], input=probe_source().encode(), capture_output=True, check=False
    )
    assert done.returncode == 2
    assert words[0].encode() in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("name", ["python3.8", "python3.9", "python3.10", "python3.12", "python3.13"])
def test_it_runs_on_other_versions(name: str) -> None:
    path = shutil.which(name)
    works = path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    if not works:
        pytest.skip(f"no {name} here")
    words = [str(path), "-I", "-S", "-", "--p2p", "quick", "--while-busy"]
    done = subprocess.run(words, input=probe_source().encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["p2p"]["level"] == "quick"


def test_a_traceback_in_the_guest_names_the_module() -> None:
    code = "\nimport provision.guest.onboard.pci_level as level\nlevel.bars('x y z')\n"
    text = probe_source().replace('if __name__ == "__main__":', "if False:") + code
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=text.encode(), capture_output=True, check=False)
    assert b"pvectl:provision.guest.onboard.pci_level" in done.stderr
